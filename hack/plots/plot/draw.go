package plot

import (
	"math"
	"slices"
)

// Dimensions in pixels.
const (
	figureWidth = 860.0
	margin      = 16.0
	lineHeight  = 15.0
	noteRunes   = 138 // maximum length of a line of notes
)

// SVG draws the figure. The figure must be valid, as Decode ensures.
func (f Figure) SVG() string {
	var c canvas
	c.heading(margin, 26, 15, f.Title)
	y := f.legend(&c, 48)
	columns := max(1, f.Columns)
	width := (figureWidth - 2*margin) / float64(columns)
	bottom := y
	for i, chart := range f.Charts {
		if i%columns == 0 {
			y = bottom
		}
		height := f.chart(&c, chart, frame{margin + width*float64(i%columns), y, width})
		bottom = max(bottom, y+height)
	}
	y = bottom + 6
	for _, note := range f.Notes {
		for _, line := range wrap(note, noteRunes) {
			c.text(margin, y, "dim", "start", line)
			y += lineHeight
		}
	}
	return c.document(f.Title, figureWidth, y)
}

// frame is a chart's place: its upper left corner and its width. The height depends on the chart's
// rows.
type frame struct{ x, y, width float64 }

// legend draws each series' name, in as many lines as needed, and returns the y below the legend.
func (f Figure) legend(c *canvas, y float64) float64 {
	x := margin
	entry := func(name string, draw func(x, y float64)) {
		width := textWidth(name) + 32
		if x+width > figureWidth-margin {
			x, y = margin, y+18
		}
		draw(x+6, y-4)
		c.text(x+15, y, "ink", "start", name)
		x += width
	}
	for i, name := range f.Series {
		entry(name, func(x, y float64) { c.mark(i, x, y) })
	}
	targets, ranges := f.legendNeeds()
	if ranges {
		entry("minimum to maximum", func(x, y float64) { c.line(x-6, y, x+6, y, "axis range") })
	}
	if targets {
		entry("target", func(x, y float64) { c.target(x, y-6, y+6) })
	}
	return y + 22
}

// legendNeeds reports whether any row has a target, and whether any measurement has a range.
func (f Figure) legendNeeds() (targets, ranges bool) {
	for _, chart := range f.Charts {
		for _, row := range chart.Rows {
			targets = targets || row.Target != nil
			for _, measurements := range row.Values {
				ranges = ranges || slices.ContainsFunc(measurements,
					func(m Measurement) bool { return m.Min < m.Max })
			}
		}
	}
	return targets, ranges
}

// target draws a target's mark.
func (c *canvas) target(x, top, bottom float64) {
	c.line(x, top, x, bottom, "axis range")
	c.line(x-3, top, x+3, top, "axis range")
	c.line(x-3, bottom, x+3, bottom, "axis range")
}

// chart draws one chart and returns its height.
func (f Figure) chart(c *canvas, chart Chart, in frame) float64 {
	c.heading(in.x, in.y+12, 12, chart.Title)
	in.y += 24
	if chart.X != "" {
		return 24 + f.positions(c, chart, in)
	}
	return 24 + f.categories(c, chart, in)
}

// valueScale returns a scale for all values of a chart, and its ticks. A linear scale begins at 0.
func (chart Chart) valueScale() (scale, []float64) {
	low, high := math.Inf(1), 0.0
	for _, row := range chart.Rows {
		if row.Target != nil {
			low, high = min(low, *row.Target), max(high, *row.Target)
		}
		for _, measurements := range row.Values {
			for _, m := range measurements {
				low, high = min(low, m.Min), max(high, m.Max)
			}
		}
	}
	if chart.Log {
		return logarithmic(low, high)
	}
	return linear(0, high, 5)
}

// Dimensions of a chart with categories.
const (
	laneHeight = 13.0 // height of one series in a row
	rowGap     = 9.0
	labelRunes = 34  // maximum length of a line in a row's label
	valueWidth = 118 // width right of the axis for the largest measurement's value
)

// categories draws one row per category. Each measured series has a lane in the row.
func (f Figure) categories(c *canvas, chart Chart, in frame) float64 {
	labels := 0.0
	for _, row := range chart.Rows {
		for _, line := range wrap(row.Label, labelRunes) {
			labels = max(labels, textWidth(line))
		}
	}
	s, ticks := chart.valueScale()
	s.from, s.to = in.x+labels+12, in.x+in.width-valueWidth
	heights := make([]float64, len(chart.Rows))
	bottom := in.y + rowGap/2
	for i, row := range chart.Rows {
		heights[i] = max(laneHeight*float64(len(row.Values)),
			lineHeight*float64(len(wrap(row.Label, labelRunes)))) + rowGap
		bottom += heights[i]
	}
	c.valueAxis(s, ticks, in.y, bottom)
	c.text((s.from+s.to)/2, bottom+30, "dim", "middle", chart.Axis)
	y := in.y + rowGap/2
	for i, row := range chart.Rows {
		f.row(c, row, s, span{y, y + heights[i] - rowGap}, in.x+labels)
		y += heights[i]
	}
	return bottom + 46 - in.y
}

// span is a vertical interval in pixels.
type span struct{ top, bottom float64 }

func (s span) middle() float64 { return (s.top + s.bottom) / 2 }

// valueAxis draws a horizontal axis below the rows. At each tick it draws a line through all rows.
func (c *canvas) valueAxis(s scale, ticks []float64, top, bottom float64) {
	for _, tick := range ticks {
		x := s.at(tick)
		c.line(x, top, x, bottom, "grid")
		c.text(x, bottom+15, "dim", "middle", number(tick))
	}
}

// row draws a category's label, target and lanes. The label ends at the pixel labels.
func (f Figure) row(c *canvas, row Row, s scale, in span, labels float64) {
	lines := wrap(row.Label, labelRunes)
	for i, line := range lines {
		offset := float64(i) - float64(len(lines)-1)/2
		c.text(labels, in.middle()+offset*lineHeight+4, "ink", "end", line)
	}
	if row.Target != nil {
		c.target(s.at(*row.Target), in.top, in.bottom)
	}
	y := in.middle() - laneHeight*float64(len(row.Values)-1)/2
	for i, name := range f.Series {
		if measurements, measured := row.Values[name]; measured {
			c.lane(i, measurements, s, y)
			y += laneHeight
		}
	}
}

// lane draws one series' measurements in one row, and their median as a number.
func (c *canvas) lane(series int, measurements []Measurement, s scale, y float64) {
	right := math.Inf(-1)
	for _, m := range measurements {
		right = max(right, s.at(m.Max))
		if m.Min < m.Max {
			c.line(s.at(m.Min), y, s.at(m.Max), y, class(series)+" range")
		}
		if math.IsNaN(m.Median) { // only the range is known, so its ends are marked
			c.line(s.at(m.Min), y-3, s.at(m.Min), y+3, class(series)+" range")
			c.line(s.at(m.Max), y-3, s.at(m.Max), y+3, class(series)+" range")
		} else {
			c.mark(series, s.at(m.Median), y)
		}
	}
	c.text(right+8, y+4, "dim", "start", valueText(measurements))
}

// valueText returns the median of measurements, or the ends of their range if there is no median.
func valueText(measurements []Measurement) string {
	if value, ok := median(measurements); ok && len(measurements) > 1 {
		return "median " + number(value)
	} else if ok {
		return number(value)
	}
	return number(measurements[0].Min) + " to " + number(measurements[0].Max)
}

func class(series int) string { return "s" + string(rune('0'+series)) }
