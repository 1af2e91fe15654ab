/* A click on a thing lights up what stands before and behind it in the chain; a click beside it puts the lights out. */
(function () {
  "use strict";
  var holder = document.currentScript.previousElementSibling;
  var beside = JSON.parse(holder.textContent);
  var root = holder.closest(".ts-scope");
  var shown = {};
  root.querySelectorAll("[data-link]").forEach(function (element) {
    element.getAttribute("data-link").split(" ").forEach(function (id) {
      if (id) { (shown[id] = shown[id] || []).push(element); }
    });
  });
  function walk(start, side, isFollowed) {
    var found = {}, open = [start];
    found[start] = true;
    while (open.length) {
      var id = open.pop();
      if (!beside[id]) { continue; }
      beside[id][side].forEach(function (next) {
        if (found[next] || !beside[next]) { return; }
        var step = isFollowed(beside[id][0], beside[next][0]);
        if (step === "skip") { return; }
        found[next] = true;
        if (step !== "stop") { open.push(next); }
      });
    }
    return found;
  }
  function litBy(start) {
    var kind = beside[start][0];
    var before = walk(start, 1, function (from, to) {
      return from === "source" && to !== "aten" ? "stop" : "go"; // a line's tensors and kernel, not what made them
    });
    var behind = walk(start, 2, function (from, to) {
      var isOwn = from === "aten" || (from === "buffer" && kind === "buffer") ||
        (from === "kernel" && (kind === "kernel" || kind === "group"));
      return to === "source" && !isOwn ? "skip" : "go";
    });
    return Object.assign(before, behind);
  }
  function clear() {
    root.querySelectorAll(".ts-lit, .ts-chosen").forEach(function (e) { e.classList.remove("ts-lit", "ts-chosen"); });
    root.classList.remove("ts-has-lit");
  }
  function choose(element) {
    clear();
    root.classList.add("ts-has-lit");
    element.getAttribute("data-link").split(" ").forEach(function (start) {
      if (!beside[start]) { return; }
      Object.keys(litBy(start)).forEach(function (id) {
        (shown[id] || []).forEach(function (e) {
          var folded = e.closest(".ts-folded");
          if (folded) { folded.open = true; }
          e.classList.add("ts-lit");
        });
      });
    });
    element.classList.add("ts-chosen");
    root.querySelectorAll(".ts-chain-items").forEach(function (column) {
      var first = column.querySelector(".ts-lit");
      if (first && !column.contains(element)) { column.scrollTop = first.offsetTop - column.offsetTop - 8; }
    });
  }
  root.addEventListener("click", function (event) {
    var element = event.target.closest("[data-link]");
    if (element && element.getAttribute("data-link")) { choose(element); } else { clear(); }
  });
  root.addEventListener("keydown", function (event) {
    var isChip = event.target.classList && event.target.classList.contains("ts-chip");
    if (isChip && (event.key === "Enter" || event.key === " ")) { choose(event.target); event.preventDefault(); }
    if (event.key === "Escape") { clear(); }
  });
})();
