// Reloads a served page when the server has another version.
"use strict";

(() => {
  async function look() {
    try {
      const version = await (await fetch("/version")).text();
      if (version !== document.body.dataset.version) location.reload();
    } catch (error) {
      // The server has ended, or isn't there yet.
    }
    setTimeout(look, 500);
  }

  look();
})();
