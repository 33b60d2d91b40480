// Dark or light before the first paint: what was chosen here, else what the system prefers.
(() => {
  const NAME = "cocoa-colours";
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try {
    chosen = localStorage.getItem(NAME);
  } catch {
    // a browser that keeps nothing
  }

  function show() {
    const dark = chosen ? chosen === "dark" : system.matches;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    const button = document.getElementById("theme");
    if (button) button.textContent = dark ? "Light colours" : "Dark colours";
  }

  show();
  system.addEventListener("change", show);
  document.addEventListener("DOMContentLoaded", () => {
    show();
    document.getElementById("theme").addEventListener("click", () => {
      chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      try {
        localStorage.setItem(NAME, chosen);
      } catch {
        // it holds for this visit
      }
      show();
    });
  });
})();
