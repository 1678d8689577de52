"use strict";

// What all charts share: Vega with the page's colours and type.

/** Return Vega's configuration for the current theme. */
function chartConfig() {
  const [ink, quiet, grid, line] = ["ink", "quiet", "grid", "line"].map(colour);
  const font = getComputedStyle(document.body).fontFamily;
  return {
    background: "transparent",
    font,
    view: { stroke: null },
    axis: {
      labelFont: font, titleFont: font, labelFontSize: 11.5, titleFontSize: 12.5, titleFontWeight: 600, titlePadding: 8,
      labelColor: quiet, titleColor: ink, gridColor: grid, domainColor: line, tickColor: line, labelLimit: 170,
    },
    legend: { labelFont: font, titleFont: font, labelFontSize: 12, titleFontSize: 12.5, labelColor: ink, titleColor: ink, orient: "top", offset: 6 },
    text: { font, color: ink },
  };
}

/** Draw a specification into an element; return the Vega view. */
async function draw(place, spec, mode = "vega-lite") {
  place.view?.finalize();
  const actions = { export: { svg: true, png: true }, source: false, compiled: false, editor: false };
  const options = { mode, renderer: spec.renderer ?? "svg", actions, config: chartConfig(), hover: true };
  const { view } = await vegaEmbed(place, spec.definition ?? spec, options);
  place.view = view;
  return view;
}

/** Say in a chart's place why there is none. */
function drawNothing(place, reason) {
  place.view?.finalize();
  place.view = null;
  place.replaceChildren(make("p", { class: "quiet" }, reason));
}

/** Call `changed` when the width of an element is another. */
function followWidth(element, changed) {
  let width = element.clientWidth;
  new ResizeObserver(() => {
    if (element.clientWidth === width) return;
    width = element.clientWidth;
    changed();
  }).observe(element);
}
