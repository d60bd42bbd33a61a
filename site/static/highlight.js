// Sphinx marks search words also in the titles of icons, and asks them for their place on the page, which they have not.
for (const kind of [SVGTitleElement, SVGDescElement]) {
  kind.prototype.getBBox ??= () => ({ x: 0, y: 0, width: 0, height: 0 });
}
