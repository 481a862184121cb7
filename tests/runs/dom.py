"""A page as a tree, and what a browser does to it with the console's frames (static/transcript/ops.js)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"img", "input", "br", "hr", "link", "meta", "use", "line", "circle", "rect"}
BLOCKS = {"p", "ul", "ol", "li", "blockquote", "div", "pre", "code", "table", "tbody", "tr", "td"}


@dataclass(eq=False)
class Node:
    tag: str
    attributes: dict[str, str | None] = field(default_factory=dict)
    children: "list[Node | str]" = field(default_factory=list)
    parent: "Node | None" = None

    @property
    def id(self) -> str:
        return self.attributes.get("id") or ""

    @property
    def order(self) -> int:
        return int(self.attributes.get("data-order") or 0)

    def walk(self) -> "Iterator[Node]":
        yield self
        for child in self.children:
            if isinstance(child, Node):
                yield from child.walk()

    def find(self, id: str) -> "Node | None":
        return next((node for node in self.walk() if node.id == id), None)

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def append(self, child: "Node | str") -> None:
        if isinstance(child, Node):
            child.parent = self
        self.children.append(child)

    def __str__(self) -> str:
        """Without the white space that nobody sees."""
        inner = "".join(str(child) if isinstance(child, Node) else child for child in _joined(self.children))
        attributes = "".join(f" {name}={value!r}" for name, value in self.attributes.items())
        return f"<{self.tag}{attributes}>{' '.join(inner.split())}</{self.tag}>\n"


def _joined(children: "list[Node | str]") -> "Iterator[Node | str]":
    text = ""
    for child in children:
        if isinstance(child, str):
            text += child
        else:
            yield text
            text = ""
            yield child
    yield text


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Node("root")
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, dict(attrs))
        self.open[-1].append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].append(Node(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].append(data)


def parse(html: str) -> Node:
    builder = _Builder()
    builder.feed(html)
    builder.close()
    assert builder.open == [builder.root], "everything that is opened is closed"
    return builder.root


class Page:
    """What somebody has on the screen."""

    def __init__(self, html: str, after: str) -> None:
        runs = parse(f'<div id="runs">{html}</div>').children[0]
        assert isinstance(runs, Node)
        self.runs = runs
        self.seen = {run: int(seq) for run, _, seq in (place.partition(":") for place in after.split(",") if place)}
        ids = [node.id for node in self.runs.walk() if node.id]
        assert len(ids) == len(set(ids)), "an id stands for one node"

    @property
    def after(self) -> dict[str, int]:
        return dict(self.seen)

    def take(self, frame: dict) -> None:
        if "run" in frame and frame["seq"] <= self.seen.get(frame["run"], 0):
            return
        for op in frame.get("ops", ()):
            self.apply(*op)
        if "run" in frame:
            self.seen[frame["run"]] = frame["seq"]

    def apply(self, kind: str, *rest: str) -> None:
        if kind == "put":
            parent_id, node_id, html = rest
            (fresh,) = [child for child in parse(html).children if isinstance(child, Node)]
            assert fresh.id == node_id
            old = self.runs.find(node_id)
            if old is not None:
                fresh.parent = old.parent
                old.parent.children[old.parent.children.index(old)] = fresh
            else:
                parent = self.runs.find(parent_id)
                assert parent is not None, f"{parent_id} is on the page"
                order = fresh.order
                later = [node for node in parent.children if isinstance(node, Node) and node.order > order > 0]
                parent.append(fresh)
                if later:
                    parent.children.insert(parent.children.index(later[0]), parent.children.pop())
        elif kind == "prepend":
            parent = self.runs.find(rest[0])
            fresh_ones = [child for child in parse(rest[1]).children if isinstance(child, Node)]
            assert not any(self.runs.find(node.id) for node in fresh_ones)
            for node in fresh_ones:
                node.parent = parent
            parent.children[:0] = fresh_ones
        elif kind == "text":
            place = self.runs.find(rest[0])
            assert place is not None
            while nodes := [child for child in place.children if isinstance(child, Node) and child.tag in BLOCKS]:
                if not isinstance(place.children[-1], Node) and place.children[-1].strip():
                    break
                place = nodes[-1]
            place.append(rest[1])
        elif kind == "remove":
            gone = self.runs.find(rest[0])
            if gone is not None:
                gone.parent.children.remove(gone)
        else:
            raise AssertionError(kind)

    def __str__(self) -> str:
        return str(self.runs)
