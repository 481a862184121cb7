"""What the demo model has to say about itself and about the product, in its own words."""

from gateway.providers.demo.story import LONG

WHAT_THIS_IS = """\
Hello! I am the **built-in demo** of Agentsite. There is no real model behind me: I look for keywords and \
answer with prepared texts. But everything around me is the real thing. My words are streamed, my tools are \
executed, and when you press **Stop**, I fall silent in the middle of a sentence.

A few things to try:

* *What time is it, and what is 17\\*23?* calls two tools
* *Do three things at once* calls three in parallel
* *Wait 20 seconds*, and then press **Stop**
* *Remember that my cat is called Minka*, and later *what do you remember?*
* *Send an email to ada@example.com about lunch* asks you first; *send three emails* asks three times at once
* *Write a long answer*, to stop me mid-sentence
* *How does Stop work?* · *What are approvals?* · *Where is my data?* · *Show me the API*

To talk to a real model, ask me *how do I connect a provider?*"""

CONNECT = """\
An admin connects a real model in two steps, both in the admin area (`/admin/`):

1. **Providers → Add.** Any endpoint that speaks OpenAI's chat completions will do. Enter its base URL and a \
key, or the name of an environment variable that holds the key.

   | where the model runs | base URL |
   |---|---|
   | OpenAI | `https://api.openai.com/v1` |
   | OpenRouter | `https://openrouter.ai/api/v1` |
   | Ollama, on this machine | `http://localhost:11434/v1` |
   | vLLM, on another machine | `http://gpu.example:8000/v1` |

2. **Agents → Add**, or change an existing one: choose the provider, type the name of the model, pick the tools.

From the next message on, that model answers in my place. Conversations, tools, Stop and limits stay as they are."""

STOP = """\
**Stop means stop.** When you press it (or Esc, or call `POST /v1/runs/{id}/stop`):

1. The request is stored first, so that not even a crash can lose it.
2. The connection to the model is closed, within 100 milliseconds, also when the model has not said a word yet. \
Nothing is generated, or billed, that nobody will read.
3. A tool that is running is cancelled. No later tool of the same step starts, and approvals that were waiting \
are denied.
4. What I had said so far is kept, as a partial answer, and the conversation goes on from there.

The run then has the status *stopped* and leaves a receipt. Ask me *what is a receipt?*, or try it: *write a \
long answer*."""

RECEIPT = """\
Every stop leaves a **receipt**: on the page, in the API and in the run's last event. It says

* who asked for it, and when
* how long it took until the model's connection was closed, and until the run had ended
* how much text was kept
* which tool calls had finished, which were interrupted, and which never started
* how many tokens still came after the request

So you need not believe that a stop worked: you can read it."""

APPROVALS = """\
Some tools should not run without a human. When an agent calls one of those, the run waits with the status \
*needs approval*:

* a card in the tool's place shows what the agent wants to do, and with which arguments
* you approve or deny each call, and may change its arguments first
* denied calls are answered with your reason, so that the model can do something else
* **Stop** denies everything that waits

While it waits the run costs nothing, and it survives a restart. In the API it is `POST /v1/runs/{id}/approvals`."""

LIMITS = """\
Every run has limits, and ends by itself at the first that it reaches:

| limit | stop reason |
|---|---|
| number of model calls | `max_steps` |
| seconds | `max_time` |
| tokens or cost | `budget` |

They are set on the agent. Whoever starts a run can lower them, never raise them. What was said until then is \
kept, and the conversation goes on."""

API = """\
Whatever this console can do, the API can do too. Start a run, follow it live, stop it:

```bash
curl -X POST http://localhost:8000/v1/runs \\
  -H "Authorization: Bearer $KEY" -H "Content-Type: application/json" \\
  -d '{"input": "Wait 20 seconds"}'

curl -N http://localhost:8000/v1/runs/run_…/events -H "Authorization: Bearer $KEY"

curl -X POST http://localhost:8000/v1/runs/run_…/stop -H "Authorization: Bearer $KEY"
```

Events are numbered without gaps. After a broken connection send `Last-Event-ID` and nothing is missing. \
Existing OpenAI clients work as well: point them at `/v1` and use the agent's name as the model. The whole \
reference is at `/v1/docs`."""

DATA = """\
Everything stays on your own machine. Unless told otherwise, Agentsite keeps it in **one SQLite file** under \
`var/`, with the keys of providers encrypted. With `DATABASE_URL` it uses PostgreSQL instead.

The only thing that leaves the house is what an agent sends to its model provider: the conversation, and its \
tools' descriptions. With me, not even that: I have no network."""

TOOLS = """\
Tools are what an agent can do besides talking. I can use these, if this agent offers them to me:

| ask me | tool |
|---|---|
| *What time is it?* | `current_time` |
| *What is 17\\*23?* | `calculator` |
| *Wait 20 seconds* | `wait` |
| *Remember that my cat is called Minka* | `remember` |
| *What do you remember?* | `recall` |
| *Write a file called plan.txt saying hello* | `write_file` |
| *List the files*, *read the file plan.txt* | `list_files`, `read_file` |
| *Start a countdown of 60 seconds in the background* | `start_process` |
| *Check the countdown*, *end the countdown* | `check_process`, `end_process` |
| *Send an email to alice@example.com saying hello* | `send_email` |

A tool that fails does not fail the run: the model is told, and can try something else."""

CRASH = """\
Nothing that was said or done is lost when a process dies. Messages and tool results are stored as they come, \
each before the next thing starts. Another worker takes the run and goes on from there. A tool call that had \
begun is not simply repeated, because it may have had an effect: the model is told that its outcome is unknown."""

TABLE = """\
With pleasure. Four ways for a run to end:

| status | what happened | what is kept |
|---|---|---|
| completed | the model said all it had to say | everything |
| completed, at a limit | steps, time or budget were used up | everything until then |
| stopped | somebody pressed Stop | everything until then, and a receipt |
| failed | the provider or the process gave up | everything until then, and the error |"""

CODE = """\
Here is a small one, to follow a run from Python:

```python
import json
import httpx

def follow(run_id: str, key: str, base_url: str = "http://localhost:8000/v1") -> str:
    \"\"\"Prints a run's text as it comes, and returns how the run ended.\"\"\"
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.stream("GET", f"{base_url}/runs/{run_id}/events", headers=headers, timeout=None) as response:
        for line in response.iter_lines():
            if not line.startswith("data:"):
                continue
            event = json.loads(line[5:])
            if event["type"] == "message.delta":
                print(event["text"], end="", flush=True)
            if "stop_reason" in event:
                return event["stop_reason"]
    return "connection lost"
```

A broken connection is no harm: ask again with the header `Last-Event-ID`, and it goes on where it left off."""

THANKS = "You are welcome. Ask me *what can you do?* if you want to see more."

NOT_UNDERSTOOD = """\
I am only the built-in demo, without a real model behind me, and I found nothing in your message that I know \
about.

I can tell you about **Stop**, **receipts**, **approvals**, **limits**, **tools**, the **API**, **where your \
data is** and **how to connect a real model**. Or let me do something: *what is 17\\*23?*, *show me a table*, \
*write a long answer*."""

# In this order: the first pattern that is found decides.
ANSWERS = (
    (r"\blong (answer|text|story)\b|\btell me a story\b|\bwrite (something )?long\b", LONG),
    (r"\btable\b", TABLE),
    (
        r"\b(some|python|sample) code\b|\bcode (block|example)\b|\bwrite (me )?(a )?(code|program|function|script)\b",
        CODE,
    ),
    (r"\breceipts?\b", RECEIPT),
    (r"\bapprov(e|al|als|ing)\b|\bpermission\b|\bhuman in the loop\b", APPROVALS),
    (
        r"\b(connect|provider|real model|openai|ollama|openrouter|vllm|own model|other model|set ?up|configure)\b",
        CONNECT,
    ),
    (r"\blimits?\b|\bbudget\b|\bmax_steps\b|\btime-?outs?\b|\bcosts?\b", LIMITS),
    (r"\bapi\b|\bcurl\b|\bendpoints?\b|\bwebsocket\b|\bsse\b|\bintegrat", API),
    (r"\b(data|stored?|storage|database|sqlite|postgres\w*|privacy|gdpr|encrypt\w*)\b", DATA),
    (r"\bcrash(es|ed)?\b|\brestart\b|\blost\b|\bpower cut\b|\bresume\b", CRASH),
    (r"\bstop(s|ped|ping)?\b|\bcancel|\binterrupt|\babort", STOP),
    (r"\btools?\b|\bfunctions?\b|\bmcp\b", TOOLS),
    (r"\bthank(s| you)\b|\bbye\b|\bgreat\b|\bcool\b|\bnice\b", THANKS),
    (r"\bhi\b|\bhello\b|\bhey\b|\bgood (morning|evening|afternoon|day)\b|\bgreetings\b", WHAT_THIS_IS),
    (
        r"\bwho are you\b|\bwhat (is this|are you|can (you|i)|do you do)\b|\bhelp\b|\bagentsite\b|\bdemo\b|\babout\b",
        WHAT_THIS_IS,
    ),
    (r"^\W*$|\btest(ing)?\b|\bstart\b|\bexamples?\b", WHAT_THIS_IS),
)

GERMAN_WHAT_THIS_IS = """\
Guten Tag! Ich bin die **eingebaute Demo** von Agentsite, ohne ein echtes Modell dahinter: Ich achte auf \
Stichwörter und antworte mit vorbereiteten Texten. Alles um mich herum ist echt: Meine Worte kommen nach und \
nach, meine Werkzeuge werden ausgeführt, und wenn Sie **Stop** drücken, verstumme ich mitten im Satz.

Versuchen Sie *Wie spät ist es?* oder *Rechne 17\\*23*. Ausführlicher bin ich auf Englisch, zum Beispiel bei \
*write a long answer* oder *how do I connect a provider?*. Ein echtes Modell verbindet ein Admin unter \
`/admin/` → **Providers**."""

GERMAN_STOP = """\
**Stop heißt Stop.** Die Verbindung zum Modell wird sofort geschlossen, auch wenn es noch nichts gesagt hat. \
Laufende Werkzeuge werden abgebrochen, der bisherige Text bleibt, und ein Beleg sagt, wer wann gestoppt hat und \
was noch geschah."""

GERMAN_THANKS = "Gern geschehen."

GERMAN_NOT_UNDERSTOOD = """\
Das habe ich leider nicht verstanden. Ich bin nur die eingebaute Demo, ohne echtes Modell, und mein Deutsch \
reicht für *Was ist das?*, *Wie spät ist es?*, *Rechne 17\\*23* und *Wie funktioniert Stop?*. Auf Englisch kann \
ich mehr."""

GERMAN_ANSWERS = (
    (r"\bdanke\b", GERMAN_THANKS),
    (r"\bstopp?\b|\banhalten\b|\babbrechen\b", GERMAN_STOP),
    (r"\bhallo\b|\bguten (tag|morgen|abend)\b|\bmoin\b|\bservus\b|\bgrüß", GERMAN_WHAT_THIS_IS),
    (r"\bwas (ist|bist|kannst|macht)\b|\bwer bist\b|\bhilfe\b|\bagentsite\b|\bdemo\b", GERMAN_WHAT_THIS_IS),
)

ANNOUNCEMENTS = {"send_email": "I will send this e-mail for you."}
AT_ONCE = "I will do these at once."


def tell_missing(tools: list[str], is_german: bool) -> str:
    names = ", ".join(f"`{tool}`" for tool in tools)
    if is_german:
        return f"Dafür bräuchte ich {names}, aber dieser Agent bietet mir das nicht an. Ein Admin kann es ändern."
    several = len(tools) > 1
    return (
        f"For that I would use the tool{'s' if several else ''} {names}, but this agent does not offer "
        f"{'them' if several else 'it'} to me. An admin can add {'them' if several else 'it'} to the agent's tools, "
        "in the admin area under **Agents**."
    )


def think_about(subject: str) -> str:
    return f"""\
The user wants me to think about {subject}. I am a demo, so I cannot really think about it, but I can show how \
thinking looks here. First, it is streamed apart from the answer, and the page folds it away. Second, it counts as \
tokens, like everything a model writes. Third, Stop works now as well, before a single word of the answer is out. \
That is worth saying. I will keep the answer short."""


def tell_after_thinking(subject: str) -> str:
    return f"""\
I have thought about *{subject}*, as far as a demo can. What you saw arriving before this answer were **reasoning** \
tokens: models that think first send those apart from the text. You can open them above, and you can press **Stop** \
while they are still coming."""
