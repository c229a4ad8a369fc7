package plot

import (
	"math"
	"slices"
)

// timeAxis is the time interval of all panels of a board, in seconds.
type timeAxis struct {
	from, to float64
	set      bool
}

// include extends the interval to include all points of lines.
func (a *timeAxis) include(lines []Line) {
	for _, line := range lines {
		for _, p := range line.Points {
			if !a.set {
				a.from, a.to, a.set = p.At, p.At, true
			}
			a.from, a.to = min(a.from, p.At), max(a.to, p.At)
		}
	}
}

// timeSeries draws a panel's lines over the minutes since the beginning of the board.
func (c *canvas) timeSeries(p Panel, in box, axis timeAxis) {
	entries := min(len(p.Lines), legendMax)
	more := len(p.Lines) > entries
	rows := (entries + 1) / 2
	if more {
		rows++
	}
	in.bottom -= legendRow*float64(rows) + 20
	s, ticks := p.axis()
	labels := 0.0
	for _, tick := range ticks {
		labels = max(labels, textWidth(p.Unit.Format(tick)))
	}
	s.from, s.to = in.bottom, in.top+8
	xs, minutes := linear(0, max(1, (axis.to-axis.from)/60), 5)
	xs.high = max(1, (axis.to-axis.from)/60)
	xs.from, xs.to = in.left+labels+14, in.right-10
	for _, tick := range ticks {
		y := s.at(tick)
		c.line(xs.from, y, xs.to, y, "grid")
		c.text(xs.from-5, y+4, "dim", "end", p.Unit.Format(tick))
	}
	for _, minute := range minutes {
		if minute <= xs.high {
			c.text(xs.at(minute), in.bottom+14, "dim", "middle", number(minute)+" min")
		}
	}
	for i, line := range p.Lines {
		var part []point
		for _, sample := range line.Points {
			if math.IsNaN(sample.Value) || math.IsInf(sample.Value, 0) {
				c.segment(i, part)
				part = nil
				continue
			}
			part = append(part, point{xs.at((sample.At - axis.from) / 60), s.at(sample.Value)})
		}
		c.segment(i, part)
	}
	c.panelLegend(p.Lines[:entries], len(p.Lines)-entries, in)
}

// segment draws the part of a line between two gaps.
func (c *canvas) segment(series int, part []point) {
	if len(part) == 1 {
		part = append(part, point{part[0].x + 1, part[0].y})
	}
	c.path("line "+class(series%seriesMax), part)
}

// axis returns the scale of a panel's values. It includes 0, unless the panel has a different
// minimum.
func (p Panel) axis() (scale, []float64) {
	low, high := 0.0, 0.0
	for _, line := range p.Lines {
		for _, sample := range line.Points {
			if !math.IsNaN(sample.Value) && !math.IsInf(sample.Value, 0) {
				low, high = min(low, sample.Value), max(high, sample.Value)
			}
		}
	}
	if p.Min != nil {
		low = *p.Min
	}
	if p.Max != nil {
		high = *p.Max
	}
	return linear(low, high, 4)
}

// panelLegend writes the names of lines in two columns below a panel.
func (c *canvas) panelLegend(lines []Line, more int, in box) {
	width := (in.right - in.left - 16) / 2
	for i, line := range lines {
		x, y := in.left+12+width*float64(i%2), in.bottom+32+legendRow*float64(i/2)
		c.mark(i%seriesMax, x, y-4)
		c.text(x+9, y, "dim", "start", clip(line.Name, width-18))
	}
	if more > 0 {
		y := in.bottom + 32 + legendRow*float64((len(lines)+1)/2)
		c.text(in.left+8, y, "dim", "start", "and "+number(float64(more))+" more")
	}
}

// Thin returns at most about n points of a line, which keeps a picture small. It keeps the smallest
// and the largest value of each interval, so no peak is lost. A gap remains a gap.
func Thin(points []Sample, n int) []Sample {
	size := (len(points)*2 + n - 1) / max(1, n)
	if size <= 2 {
		return points
	}
	var kept []Sample
	for interval := range slices.Chunk(points, size) {
		least, most := -1, -1
		for i, p := range interval {
			if math.IsNaN(p.Value) {
				continue
			}
			if least < 0 || p.Value < interval[least].Value {
				least = i
			}
			if most < 0 || p.Value > interval[most].Value {
				most = i
			}
		}
		if least < 0 {
			kept = append(kept, interval[0])
			continue
		}
		kept = append(kept, interval[min(least, most)])
		if least != most {
			kept = append(kept, interval[max(least, most)])
		}
	}
	return kept
}
