package plot

import (
	"cmp"
	"math"
	"slices"
)

// positionsHeight is the height of the plot area in a chart with positions, in pixels.
const positionsHeight = 250.0

// positions draws a chart with a horizontal axis of positions. Each measurement is a mark, and a
// line connects a series' medians.
func (f Figure) positions(c *canvas, chart Chart, in frame) float64 {
	values, ticks := chart.valueScale()
	values.from, values.to = in.y+positionsHeight, in.y+16
	left := 0.0
	for _, tick := range ticks {
		left = max(left, textWidth(number(tick)))
	}
	xs, xTicks := chart.positionScale()
	xs.from, xs.to = in.x+left+26, in.x+in.width-26
	for _, tick := range ticks {
		y := values.at(tick)
		c.line(xs.from, y, xs.to, y, "grid")
		c.text(xs.from-7, y+4, "dim", "end", number(tick))
	}
	for _, tick := range xTicks {
		x := xs.at(tick)
		c.line(x, values.from, x, values.from+4, "axis")
		c.text(x, values.from+18, "dim", "middle", number(tick))
	}
	c.text((xs.from+xs.to)/2, values.from+36, "dim", "middle", chart.X)
	c.text(in.x, in.y+4, "dim", "start", chart.Axis)
	for i, name := range f.Series {
		c.curve(i, name, chart.Rows, xs, values)
	}
	return positionsHeight + 52
}

// positionScale returns the scale of the positions. If the axis is logarithmic, its ticks are the
// positions themselves, because measurements use only few positions.
func (chart Chart) positionScale() (scale, []float64) {
	var xs []float64
	for _, row := range chart.Rows {
		xs = append(xs, row.X)
	}
	slices.Sort(xs)
	xs = slices.Compact(xs)
	if low, high := xs[0], xs[len(xs)-1]; chart.LogX && low < high {
		return scale{low: low, high: high, log: true}, xs
	}
	return linear(xs[0], xs[len(xs)-1], 6)
}

// curve draws one series' measurements at all positions.
func (c *canvas) curve(series int, name string, rows []Row, xs, values scale) {
	rows = slices.SortedStableFunc(slices.Values(rows),
		func(a, b Row) int { return cmp.Compare(a.X, b.X) })
	var line []point
	for _, row := range rows {
		measurements := row.Values[name]
		x := xs.at(row.X)
		for _, m := range measurements {
			if m.Min < m.Max {
				c.line(x, values.at(m.Min), x, values.at(m.Max), class(series)+" range")
			}
			if !math.IsNaN(m.Median) {
				c.mark(series, x, values.at(m.Median))
			}
		}
		if value, ok := median(measurements); ok {
			line = append(line, point{x, values.at(value)})
		}
	}
	c.path("line "+class(series), line)
}
