"""What a person sees of a conversation: the log of its runs, folded into items and rendered as HTML.

log        reads what is stored, without what a later event repeats
folding    events → items: the one place that knows what an event means for the reader
items      a message, a thought, a tool's work, an approval, a line, an end
markdown   text → safe HTML;  blocks: the same while the text still grows
fragments  items → HTML, by the templates under templates/transcript/
frames     what an event changes on a page that is open
page       the newest items of a conversation, and the older ones on demand
state      what the rest of the console needs to know about the runs
"""
