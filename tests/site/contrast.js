// The least contrast of the words in an article, as the Web Content Accessibility Guidelines count it, and where.
() => {
  const words = "a span, p, li, dt, dd, th, td, pre, strong, code, a, summary, h1, h2, h3";
  const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const found = channels(getComputedStyle(element).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  let least = [22, ""];
  for (const element of document.querySelectorAll(`article :is(${words}):not(.headerlink)`)) {
    if (![...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.nodeValue.trim())) continue;
    const front = light(channels(getComputedStyle(element).color));
    const back = light(behind(element));
    const contrast = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    if (contrast < least[0]) least = [contrast, `${element.tagName}: ${element.textContent.slice(0, 60)}`];
  }
  return least;
}
