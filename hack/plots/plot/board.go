package plot

import (
	"math"
	"strings"
)

// Board is a picture of a dashboard's panels, at their places in the dashboard's grid.
type Board struct {
	Title  string
	Notes  []string // lines below the panels
	Panels []Panel
}

// Panel is one panel of a dashboard. Its place and its size are in cells of a grid with 24 columns.
type Panel struct {
	Title      string
	X, Y, W, H int
	Kind       Kind
	Unit       Unit
	Lines      []Line     // only for kinds Stat and TimeSeries
	Min, Max   *float64   // fixed ends of the axis; nil: chosen from the values
	Columns    []string   // only for kind Table
	Rows       [][]string // only for kind Table; each row has a cell for each column
}

// Kind is the way in which a panel shows its values.
type Kind int

// Kinds of panels.
const (
	Stat       Kind = iota // last value of each line, as a number
	TimeSeries             // lines over time
	Table
	Heading // only a title
)

// Line contains the values of one series over time.
type Line struct {
	Name   string
	Points []Sample
}

// Sample is a value at a time in seconds. The value NaN is a gap.
type Sample struct{ At, Value float64 }

// Dimensions of a board, in pixels.
const (
	cellWidth   = 40.0
	cellHeight  = 30.0
	panelGap    = 8.0
	panelHeader = 22.0
	legendMax   = 8 // maximum number of entries below a panel; further entries are counted
	legendRow   = 14.0
)

// SVG draws the board.
func (b Board) SVG() string {
	var c canvas
	c.heading(margin, 26, 15, b.Title)
	bottom := 0.0
	var axis timeAxis
	for _, p := range b.Panels {
		axis.include(p.Lines)
	}
	for _, p := range b.Panels {
		x, y := margin+cellWidth*float64(p.X), 40+cellHeight*float64(p.Y)
		in := box{x, y, x + cellWidth*float64(p.W) - panelGap,
			y + cellHeight*float64(p.H) - panelGap}
		bottom = max(bottom, in.bottom)
		c.panel(p, in, axis)
	}
	y := bottom + 24
	for _, note := range b.Notes {
		for _, line := range wrap(note, noteRunes) {
			c.text(margin, y, "dim", "start", line)
			y += lineHeight
		}
	}
	return c.document(b.Title, 2*margin+24*cellWidth-panelGap, y)
}

// box is an area in pixels.
type box struct{ left, top, right, bottom float64 }

// panel draws the frame and the content of a panel.
func (c *canvas) panel(p Panel, in box, axis timeAxis) {
	if p.Kind == Heading {
		c.heading(in.left, in.bottom-4, 12, p.Title)
		return
	}
	c.path("grid line", []point{{in.left, in.top}, {in.right, in.top}, {in.right, in.bottom},
		{in.left, in.bottom}, {in.left, in.top}})
	c.heading(in.left+8, in.top+15, 11, clip(p.Title, in.right-in.left-16))
	in.top += panelHeader
	switch {
	case p.Kind == Table && len(p.Rows) > 0:
		c.table(p, in)
	case p.Kind == Stat && p.hasValues():
		c.stat(p, in)
	case p.Kind == TimeSeries && p.hasValues():
		c.timeSeries(p, in, axis)
	default:
		c.text((in.left+in.right)/2, (in.top+in.bottom)/2, "dim", "middle", "No data")
	}
}

func (p Panel) hasValues() bool {
	for _, line := range p.Lines {
		if _, ok := line.last(); ok {
			return true
		}
	}
	return false
}

// last returns the last value that is not NaN.
func (l Line) last() (float64, bool) {
	for i := len(l.Points) - 1; i >= 0; i-- {
		if value := l.Points[i].Value; !math.IsNaN(value) && !math.IsInf(value, 0) {
			return value, true
		}
	}
	return 0, false
}

// stat writes each line's last value.
func (c *canvas) stat(p Panel, in box) {
	y := (in.top+in.bottom)/2 + 4
	for _, line := range p.Lines {
		value, ok := line.last()
		if !ok {
			continue
		}
		c.heading(in.left+10, y, 20, p.Unit.Format(value))
		if line.Name != "" {
			c.text(in.left+10, y+16, "dim", "start", clip(line.Name, in.right-in.left-20))
		}
		y += 40
	}
}

// table writes the columns of a table, with as many rows as fit, and the number of the remaining
// rows.
func (c *canvas) table(p Panel, in box) {
	width := (in.right - in.left - 16) / float64(len(p.Columns))
	row := func(y float64, class string, cells []string) {
		for i, cell := range cells {
			c.text(in.left+8+width*float64(i), y, class, "start", clip(cell, width-6))
		}
	}
	y := in.top + 14
	row(y, "dim", p.Columns)
	for i, cells := range p.Rows {
		if y += lineHeight + 2; y+lineHeight > in.bottom && i < len(p.Rows)-1 {
			c.text(in.left+8, y, "dim", "start", "and "+number(float64(len(p.Rows)-i))+" more rows")
			return
		}
		row(y, "ink", cells)
	}
}

// clip shortens text to a width in pixels.
func clip(text string, width float64) string {
	if textWidth(text) <= width {
		return text
	}
	runes := []rune(text)
	return strings.TrimSpace(string(runes[:max(0, int(width/textWidth("x"))-1)])) + "…"
}
