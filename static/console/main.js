// @ts-check
// What every page of the console does. Each behaviour is a file of its own and starts itself where it finds its elements.

import "./theme.js";
import "./panels.js";
import "./menu.js";
import "./overview.js";
import "./conversations.js";
import "./entries.js";
import "./dialogs.js";
import "./keys.js";
import "./stop.js";
import "./shell.js";
import "./queue.js";
import "./composer.js";
