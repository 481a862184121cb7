// @ts-check
// The page follows the text only while the reader is at its end. Elsewhere a button says that there is more below.

const NEAR = 48;

export class Scrolling {
  /** @param {HTMLElement} box @param {HTMLElement} column @param {HTMLElement} button */
  constructor(box, column, button) {
    this.box = box;
    this.button = button;
    this.isFollowing = true;
    this.hasEnd = true; // the end of what is shown is the conversation's
    this.top = 0; // where it was when somebody last looked
    box.addEventListener("scroll", () => this.look(), { passive: true });
    // Whoever opens or closes something wants to see that, and not the end.
    box.addEventListener("click", (event) => {
      if (event.target instanceof Element && event.target.closest("summary, [data-more], [data-fetch]")) this.isFollowing = false;
    });
    new ResizeObserver(() => this.settle()).observe(column);
    new ResizeObserver(() => this.settle()).observe(box);
    button.addEventListener("click", () => this.toEnd());
    document.addEventListener("scroll-to-end", () => this.toEnd());
  }

  /** How much is below. */
  get rest() {
    return this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight;
  }

  /** Only a move upwards is the reader's: the end also gets away when the box shrinks or the text grows. */
  look() {
    const isUp = this.box.scrollTop < this.top;
    this.top = this.box.scrollTop;
    if (isUp && this.rest > 2) this.isFollowing = false;
    else if (!isUp && this.hasEnd && this.rest < NEAR) this.isFollowing = true;
    if (this.isFollowing) this.button.hidden = true;
  }

  settle() {
    if (!this.isFollowing) return;
    this.box.scrollTop = this.box.scrollHeight;
    this.top = this.box.scrollTop;
  }

  toEnd() {
    this.isFollowing = this.hasEnd;
    this.button.hidden = true;
    this.settle();
  }

  /** Something new has come. */
  notice() {
    if (this.isFollowing) this.settle();
    else if (this.rest > NEAR) this.button.hidden = false;
  }

  /** Change what is above without moving what the reader looks at.
   * @param {Element | null} anchor @param {() => void} change */
  keep(anchor, change) {
    const before = anchor?.getBoundingClientRect().top ?? 0;
    change();
    const after = anchor?.getBoundingClientRect().top ?? 0;
    this.box.scrollTop += after - before;
    this.top = this.box.scrollTop;
  }
}
