"use strict";
(function () {
	const data = JSON.parse(document.getElementById("data").textContent);
	const dark = matchMedia("(prefers-color-scheme: dark)");
	const labels = data.labels;
	const drawn = new Map();

	const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
	const count = (n) => n.toLocaleString("en-US");
	const escaped = (s) => s.replace(/[&<>"']/g, (c) => "&#" + c.charCodeAt(0) + ";");

	function base() {
		return {
			animation: false,
			textStyle: { color: colour("soft"), fontFamily: getComputedStyle(document.body).fontFamily },
			tooltip: {
				confine: true, backgroundColor: colour("ground"), borderColor: colour("rule"),
				textStyle: { color: colour("ink"), fontSize: 13 },
			},
			grid: { left: 4, right: 32, top: 10, bottom: 4, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
		};
	}

	const line = () => ({ lineStyle: { color: colour("rule") } });

	function timeAxis() {
		return {
			type: "category", data: labels, axisLine: line(), axisTick: { show: false },
			axisLabel: { color: colour("soft"), hideOverlap: true, fontSize: 11, formatter: short, showMinLabel: true, alignMinLabel: "left" },
		};
	}

	// short leaves out what all labels begin with: the year, or the day.
	const shared = labels.length ? [5, 11].filter((n) => labels.every((l) => l.slice(0, n) === labels[0].slice(0, n) && l.length > n)).pop() || 0 : 0;
	function short(label) {
		return label.slice(shared);
	}

	function countAxis() {
		return {
			type: "value", minInterval: 1, splitNumber: 3, splitLine: line(),
			axisLabel: { color: colour("soft"), fontSize: 11, formatter: count },
		};
	}

	function bars(name, values) {
		return {
			name, type: "bar", stack: "all", data: values, itemStyle: { color: colour(name) },
			barCategoryGap: "10%", barMinWidth: 2, emphasis: { disabled: true },
		};
	}

	function overTime(admitted, refused, legend) {
		const o = base();
		o.xAxis = timeAxis();
		o.yAxis = countAxis();
		o.series = [bars("admitted", admitted), bars("refused", refused)];
		o.tooltip.trigger = "axis";
		o.tooltip.valueFormatter = count;
		if (legend) {
			o.legend = { right: 8, top: 0, textStyle: { color: colour("ink") }, inactiveColor: colour("soft"), icon: "rect", itemWidth: 14, itemHeight: 10 };
			o.grid.top = 36;
		}
		return o;
	}

	function heat() {
		const refused = document.querySelector('input[name="heat"][value="refused"]').checked;
		const cells = [];
		let most = 1;
		data.rows.forEach((row, y) => row.refused.forEach((no, x) => {
			const n = refused ? no : no + row.admitted[x];
			if (n > 0) {
				cells.push([x, y, Math.log(n), n]); // coloured by orders of magnitude
				most = Math.max(most, n);
			}
		}));
		const o = base();
		const narrow = innerWidth < 640;
		o.xAxis = timeAxis();
		o.yAxis = {
			type: "category", data: data.rows.map((r) => r.name), inverse: true, axisLine: line(), splitLine: { show: true, ...line() }, axisTick: { show: false },
			axisLabel: { color: colour("soft"), fontSize: 11, interval: 0, width: narrow ? 100 : 220, overflow: "truncate" },
		};
		o.grid.top = 44;
		o.visualMap = {
			min: 0, max: Math.max(Math.log(most), 0.01), dimension: 2, orient: "horizontal", right: 8, top: 0, itemHeight: narrow ? 110 : 160, itemWidth: 12, calculable: false,
			text: [count(most), "1"], textStyle: { color: colour("soft") },
			inRange: { color: ["low", "mid", "high"].map((step) => colour((refused ? "refused-" : "requests-") + step)) },
		};
		o.tooltip.formatter = (p) => escaped(data.rows[p.value[1]].name) + "<br>" + labels[p.value[0]] + "<br>" + count(p.value[3]) + (refused ? " refused" : " requests");
		o.series = [{ type: "heatmap", data: cells, progressive: 0, itemStyle: { borderWidth: 0 }, emphasis: { itemStyle: { borderColor: colour("ink"), borderWidth: 1 } } }];
		return o;
	}

	function peaks(bins) {
		const o = base();
		o.xAxis = {
			type: "category", data: bins.map((b) => b.label), axisLine: line(), axisTick: { show: false },
			axisLabel: { color: colour("soft"), fontSize: 11, hideOverlap: true },
		};
		o.yAxis = countAxis();
		o.tooltip.trigger = "axis";
		o.tooltip.formatter = (p) => "peak " + p[0].name + "<br>" + count(p[0].value) + (p[0].value === 1 ? " client" : " clients");
		o.series = [{
			type: "bar", barCategoryGap: "15%", emphasis: { disabled: true },
			data: bins.map((b) => ({ value: b.clients, itemStyle: { color: colour(b.over ? "refused" : "admitted") } })),
			label: { show: true, position: "top", color: colour("soft"), fontSize: 10, formatter: (p) => (p.value ? count(p.value) : "") },
		}];
		o.grid.top = 18;
		return o;
	}

	function options(place) {
		const row = Number(place.dataset.row);
		switch (place.dataset.chart) {
		case "time": return overTime(data.all.admitted, data.all.refused, true);
		case "client": return overTime(data.rows[row].admitted, data.rows[row].refused, false);
		case "heat": return heat();
		default: return peaks(data.peaks[row]);
		}
	}

	function draw(place) {
		if (place.dataset.chart === "heat") {
			place.style.height = 90 + 17 * data.rows.length + "px";
		} else {
			place.style.height = place.classList.contains("tall") ? "19rem" : "10rem";
		}
		let chart = drawn.get(place);
		if (!chart) {
			chart = echarts.init(place, null, { renderer: "svg" });
			drawn.set(place, chart);
		}
		chart.setOption(options(place), true);
		place.querySelectorAll("svg").forEach((svg) => svg.setAttribute("aria-hidden", "true"));
	}

	function drawAll() {
		document.querySelectorAll("[data-chart]").forEach(draw);
		document.documentElement.dataset.drawn = String(drawn.size);
	}

	// A cell's worth is its number, where its column has numbers.
	function worth(row, column) {
		const cell = row.cells[column];
		return cell.classList.contains("n") ? Number(cell.textContent.replace(/[,% ]/g, "")) : cell.textContent;
	}

	function sort(table, heading) {
		const column = heading.cellIndex;
		const numbers = heading.classList.contains("n");
		const before = heading.getAttribute("aria-sort");
		const down = before === "none" ? numbers : before === "ascending";
		table.querySelectorAll("thead th").forEach((th) => th.setAttribute("aria-sort", "none"));
		heading.setAttribute("aria-sort", down ? "descending" : "ascending");
		const rows = Array.from(table.tBodies[0].rows, (row, i) => ({ row, i, worth: worth(row, column) }));
		rows.sort((a, b) => {
			const less = a.worth < b.worth ? -1 : a.worth > b.worth ? 1 : 0;
			return (down ? -less : less) || a.i - b.i;
		});
		table.tBodies[0].append(...rows.map((r) => r.row));
		document.getElementById("sorted").textContent = "Sorted by " + heading.textContent + (down ? ", descending." : ", ascending.");
	}

	document.querySelectorAll("table.sortable").forEach((table) => {
		table.tHead.addEventListener("click", (e) => {
			const heading = e.target.closest("button") && e.target.closest("th");
			if (heading) {
				sort(table, heading);
			}
		});
	});
	document.querySelectorAll('input[name="heat"]').forEach((choice) => choice.addEventListener("change", () => draw(document.querySelector('[data-chart="heat"]'))));
	dark.addEventListener("change", drawAll);
	let late;
	addEventListener("resize", () => {
		clearTimeout(late);
		late = setTimeout(() => {
			drawn.forEach((chart) => chart.resize());
			drawAll();
		}, 100);
	});
	drawAll();
})();
