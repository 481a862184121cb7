"""A long answer, to try Stop on."""

LONG = """\
# How to stop a machine politely

*A long answer, so that you have time to press* **Stop**. *Do it whenever you like: what I have said until then \
stays.*

## 1. The lighthouse keeper

There was once a lighthouse keeper who had a clockwork assistant. It polished the lenses, trimmed the wick and \
wrote the log, and it did all of this very well. It had a single fault: once it had begun a sentence, it could \
not be interrupted. If a storm came up while it was describing the weather, it described the weather to the \
end, comma by comma, while the lamp went out.

The keeper wrote to the maker. The maker wrote back that a stop lever had been fitted from the beginning. So it \
had: the lever rang a bell, and the assistant, being polite, looked at the bell as soon as it had finished its \
sentence.

## 2. What a stop must do

The keeper, who was a practical person, sat down and listed what she expected of a lever that says *Stop*:

1. It works at once, and not at the end of the sentence.
2. It works in the pauses too, when the assistant is only thinking.
3. What has been written in the log stays in the log.
4. Whatever the hands are doing, they let go of carefully; and nothing new is begun.
5. Afterwards one can see what was done, and what was not.
6. And in the morning the two of them simply carry on.

It is a short list. It is also most of the work.

## 3. Why it is harder than it looks

| difficulty | what goes wrong without care |
|---|---|
| the assistant is silent | nobody looks at the lever until it speaks again |
| the stop and the end coincide | the log says both, or neither |
| the hands are busy | a half-turned valve, and no note of it |
| somebody pulls twice | the second pull breaks what the first one tidied |
| the lights go out in between | nobody remembers that the lever was pulled |

Each of these is rare. A lighthouse, however, stands for a long time, and rare things have all the time in the \
world.

## 4. A small protocol

So the keeper and her assistant agreed on a procedure, and pinned it beside the lever:

```text
pull        →  write down that it was pulled, by whom and when
then        →  close the book in the middle of the word
hands busy  →  let go; note "let go of", never "finished"
last        →  one line at the end of the page, and exactly one
```

The assistant asked whether it might at least finish the word. The keeper thought about it for a while. *No*, \
she said, *because then there will be a second word.*

## 5. The morning after

From then on the nights were calmer. The lever was pulled now and then: for a storm, for a ship, sometimes only \
because the keeper had heard enough about the weather. Each time there was half a sentence in the log, and \
under it a line that said who had pulled, and how long it had taken. It never took long.

And in the morning the assistant read what stood there, half sentences and all, and went on from it. It turned \
out that one can live very well with half a sentence, as long as one knows that it is half.

*That is the end. If you are reading this, you did not press Stop. The lever is still there.*"""
