// @ts-check
// What a reader has selected in a text that grows stays selected. Its nodes are replaced, and a block may become two, but
// the characters of a message stay where they are: so a place is remembered as a number of them.

const MESSAGE = "[id$='-body']";

/** @param {Element} message @param {Node} node @param {number} offset */
function measure(message, node, offset) {
  const range = document.createRange();
  range.setStart(message, 0);
  range.setEnd(node, offset);
  return range.toString().length;
}

/** @param {Element} message @param {number} count @returns {[Node, number]} */
function locate(message, count) {
  const texts = document.createTreeWalker(message, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const length = text.textContent?.length ?? 0;
    if (count <= length) return [text, count];
    count -= length;
  }
  return [message, message.childNodes.length];
}

/** One end of the selection, as a way to find it again.
 * @param {Node | null} node @param {number} offset @returns {() => [Node, number] | null} */
function remember(node, offset) {
  const message = (node instanceof Element ? node : node?.parentElement)?.closest(MESSAGE);
  const count = node && message ? measure(message, node, offset) : 0;
  return () => {
    if (node?.isConnected) return [node, offset];
    const found = message && document.getElementById(message.id);
    return found ? locate(found, count) : null;
  };
}

/** @returns {() => void} puts the selection back to where it is now */
export function keepSelection() {
  const selection = getSelection();
  if (!selection || selection.isCollapsed) return () => {};
  const { anchorNode, focusNode } = selection;
  const findAnchor = remember(anchorNode, selection.anchorOffset);
  const findFocus = remember(focusNode, selection.focusOffset);
  return () => {
    if (anchorNode?.isConnected && focusNode?.isConnected) return;
    const [anchor, focus] = [findAnchor(), findFocus()];
    if (anchor && focus) selection.setBaseAndExtent(...anchor, ...focus);
  };
}
