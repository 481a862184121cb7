// @ts-check
// Decisions can be made in the inbox as well as in the conversation, with the same form.

import { letDecide } from "../transcript/deciding.js";

const room = document.querySelector("[data-inbox]");
if (room instanceof HTMLElement) letDecide(room);
