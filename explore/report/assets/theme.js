"use strict";

// Light and dark: the system's choice until the button overrides it.

const THEMES = ["system", "light", "dark"];

function currentTheme() {
  return document.documentElement.dataset.theme ?? "system";
}

/** Make the button switch between the themes, and call `changed` when the colours are others. */
function followTheme(button, changed) {
  const show = (theme) => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = `Colours: ${theme}`;
  };
  show("system");
  button.addEventListener("click", () => {
    show(THEMES[(THEMES.indexOf(currentTheme()) + 1) % THEMES.length]);
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}

/** Return a colour of the style sheet, as the theme has it now. */
function colour(name) {
  const probe = make("span", { style: `color: var(--${name})` });
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** Tell whether the page is dark now. */
const isDark = () => colour("ground") !== "rgb(255, 255, 255)";
