package plot

import (
	"fmt"
	"html"
	"strconv"
	"strings"
)

// seriesMax is the number of colours and shapes.
const seriesMax = 8

// palette is a set of colours. Text has a contrast of at least 4.5 to the background, and a series
// has a contrast of at least 3 (WCAG 2.2, 1.4.3 and 1.4.11). A test computes both.
type palette struct {
	background, text, faint, grid string
	series                        [seriesMax]string
}

var (
	light = palette{"#ffffff", "#1f2328", "#59636e", "#d1d9e0", [seriesMax]string{"#0072b2",
		"#d04a00", "#00795a", "#a63a82", "#8a6d00", "#6b7580", "#5b4bb5", "#b3123f"}}
	dark = palette{"#0d1117", "#f0f6fc", "#9aa4af", "#343b44", [seriesMax]string{"#58a6ff",
		"#ff8c42", "#3fb98f", "#e08cc4", "#d9b73b", "#9aa4af", "#a99bff", "#ff6b8b"}}
)

// css returns the rules of a palette.
func (p palette) css() string {
	var b strings.Builder
	fmt.Fprintf(&b, ".bg{fill:%s}.ink{fill:%s}.dim{fill:%s}.grid{stroke:%s}.axis{stroke:%s}",
		p.background, p.text, p.faint, p.grid, p.faint)
	for i, colour := range p.series {
		fmt.Fprintf(&b, ".s%d{fill:%s;stroke:%s}", i, colour, colour)
	}
	return b.String()
}

// canvas collects the elements of a picture.
type canvas struct{ b strings.Builder }

// document returns the complete picture with the collected elements. Screen readers announce the
// title.
func (c *canvas) document(title string, width, height float64) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" `+
		`width="%s" height="%s" role="img" font-family="system-ui,sans-serif" font-size="11">`+
		"\n<title>%s</title>\n<style>%s@media (prefers-color-scheme:dark){%s}"+
		".line{fill:none;stroke-width:1.5}.range{stroke-width:2;stroke-opacity:.55}"+
		".area{stroke:none;fill-opacity:.14}</style>\n"+
		`<rect class="bg" width="100%%" height="100%%"/>`+"\n%s</svg>\n",
		px(width), px(height), px(width), px(height), html.EscapeString(title), light.css(),
		dark.css(), c.b.String())
}

// px returns a coordinate as text, with at most one decimal.
func px(value float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(value, 'f', 1, 64), ".0")
}

// text writes a line of text at x. The anchor is start, end or middle: this part of the text is at
// x.
func (c *canvas) text(x, y float64, class, anchor, text string) {
	fmt.Fprintf(&c.b, `<text x="%s" y="%s" class="%s"`, px(x), px(y), class)
	if anchor != "start" {
		fmt.Fprintf(&c.b, ` text-anchor="%s"`, anchor)
	}
	fmt.Fprintf(&c.b, ">%s</text>\n", html.EscapeString(text))
}

// heading writes a line of larger, bold text.
func (c *canvas) heading(x, y, size float64, text string) {
	fmt.Fprintf(&c.b, `<text x="%s" y="%s" class="ink" font-size="%s" font-weight="600">%s</text>`+
		"\n", px(x), px(y), px(size), html.EscapeString(text))
}

func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(&c.b, `<path class="%s" d="M%s %sL%s %s"/>`+"\n", class, px(x1), px(y1), px(x2),
		px(y2))
}

// point is a position in pixels.
type point struct{ x, y float64 }

// path draws a line through all points.
func (c *canvas) path(class string, points []point) {
	if len(points) < 2 {
		return
	}
	fmt.Fprintf(&c.b, `<path class="%s" d="`, class)
	for i, p := range points {
		c.b.WriteByte("ML"[min(i, 1)])
		c.b.WriteString(px(p.x) + " " + px(p.y))
	}
	c.b.WriteString("\"/>\n")
}

// shapes are the outlines of marks around the origin, one for each series.
var shapes = [seriesMax]string{
	"m-3.3 0a3.3 3.3 0 1 0 6.6 0a3.3 3.3 0 1 0 -6.6 0z",            // circle
	"m-2.9 -2.9h5.8v5.8h-5.8z",                                     // square
	"m0 -3.8l3.6 6.4h-7.2z",                                        // triangle
	"m0 -4l4 4l-4 4l-4 -4z",                                        // diamond
	"m0 3.8l3.6 -6.4h-7.2z",                                        // triangle, pointing down
	"m-1.2 -3.6h2.4v2.4h2.4v2.4h-2.4v2.4h-2.4v-2.4h-2.4v-2.4h2.4z", // cross
	"m-4 -1.7h8v3.4h-8z",                                           // bar
	"m-1.7 -4h3.4v8h-3.4z",
}

// mark draws the shape of a series at a position.
func (c *canvas) mark(series int, x, y float64) {
	fmt.Fprintf(&c.b, `<path class="s%d" fill-opacity=".8" d="M%s %s%s"/>`+"\n", series, px(x),
		px(y), shapes[series])
}

// textWidth estimates the width of text in pixels at the default size. Fonts differ, so the
// estimate is slightly above the average.
func textWidth(text string) float64 { return 6.3 * float64(len([]rune(text))) }

// wrap breaks text into lines of at most width runes. Longer words are not broken.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}
