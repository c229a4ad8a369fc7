package plot

import (
	"math"
	"strings"
	"testing"
)

func testBoard() Board {
	var wave, gaps []Sample
	for i := range 60 {
		index := 1_700_000_000 + float64(10*i)
		wave = append(wave, Sample{index, 1e6 * (1 + math.Round(100*math.Sin(float64(i)/6))/100)})
		value := float64(i) * 1e4
		if i > 20 && i < 40 {
			value = math.NaN()
		}
		gaps = append(gaps, Sample{index, value})
	}
	many := make([]Line, 11)
	for i := range many {
		many[i] = Line{"line " + number(float64(i)), []Sample{{1_700_000_000, float64(i)},
			{1_700_000_600, float64(2 * i)}}}
	}
	one := 1.0
	return Board{Title: "Board", Notes: []string{"Where the values come from."}, Panels: []Panel{
		{Title: "Row", W: 24, H: 1, Kind: Heading},
		{Title: "Stat", Y: 1, W: 4, H: 4, Unit: "bytes", Lines: []Line{{"", wave}}},
		{Title: "Empty", X: 4, Y: 1, W: 4, H: 4, Unit: "short", Lines: []Line{{"",
			[]Sample{{1_700_000_000, math.NaN()}}}}},
		{Title: "Lines", Y: 5, W: 12, H: 9, Kind: TimeSeries, Unit: "Bps", Lines: []Line{
			{"wave", wave}, {"with a gap", gaps}}},
		{Title: "Many lines, and a fixed maximum", X: 12, Y: 5, W: 12, H: 9, Kind: TimeSeries,
			Unit: "percentunit", Max: &one, Lines: many},
		{Title: "Table", Y: 14, W: 24, H: 3, Kind: Table, Columns: []string{"topic", "overdue"},
			Rows: [][]string{{"tickets", "3 s"}, {"events", "-"}, {"orders", "-"}, {"x", "-"}}},
	}}
}

func TestBoard(t *testing.T) {
	golden(t, "board", testBoard().SVG())
}

func TestPanelsWithoutValuesSaySo(t *testing.T) {
	for _, kind := range []Kind{Stat, TimeSeries, Table} {
		board := Board{Title: "b", Panels: []Panel{{Title: "p", W: 12, H: 8, Kind: kind}}}
		if !strings.Contains(board.SVG(), "No data") {
			t.Errorf("kind %d: the picture does not say that there is no data", kind)
		}
	}
}

// TestGapsAreNotDrawn checks that a line with a gap is drawn in two parts.
func TestGapsAreNotDrawn(t *testing.T) {
	line := Line{"l", []Sample{{0, 1}, {10, 2}, {20, math.NaN()}, {30, 4}, {40, 5}}}
	board := Board{Title: "b", Panels: []Panel{{Title: "p", W: 12, H: 8, Kind: TimeSeries,
		Lines: []Line{line}}}}
	if parts := strings.Count(board.SVG(), `class="line s0"`); parts != 2 {
		t.Errorf("%d parts of a line with one gap, want 2", parts)
	}
}

func TestThinKeepsPeaksAndGaps(t *testing.T) {
	var points []Sample
	for i := range 1000 {
		points = append(points, Sample{float64(i), float64(i % 7)})
	}
	points[500].Value, points[300].Value = 99, -99
	for i := 700; i < 800; i++ {
		points[i].Value = math.NaN()
	}
	thin := Thin(points, 100)
	if len(thin) > 110 || len(thin) < 80 {
		t.Errorf("%d points, want about 100", len(thin))
	}
	peak, least, gaps := 0.0, 0.0, 0
	for i, p := range thin {
		if i > 0 && p.At <= thin[i-1].At {
			t.Fatalf("points out of order at %v", p.At)
		}
		peak, least = max(peak, zeroIfNaN(p.Value)), min(least, zeroIfNaN(p.Value))
		if math.IsNaN(p.Value) {
			gaps++
		}
	}
	if peak != 99 || least != -99 || gaps == 0 {
		t.Errorf("peak %v, least %v, %d points in the gap", peak, least, gaps)
	}
	if got := Thin(points[:50], 100); len(got) != 50 {
		t.Errorf("%d of 50 points are left of a short line", len(got))
	}
}

func zeroIfNaN(value float64) float64 {
	if math.IsNaN(value) {
		return 0
	}
	return value
}

func TestUnits(t *testing.T) {
	for _, c := range []struct {
		unit  Unit
		value float64
		want  string
	}{
		{"percentunit", 0.125, "12.5 %"}, {"bytes", 0, "0 B"}, {"bytes", 1536, "1.5 KiB"},
		{"bytes", 3 << 40, "3 TiB"}, {"Bps", 2_500_000, "2.5 MB/s"}, {"s", 90, "1.5 min"},
		{"s", 0.0125, "12.5 ms"}, {"s", 7 * 86400, "7 d"}, {"s", 0, "0 s"}, {"s", 2e-5, "20 µs"},
		{"s", 7200, "2 h"}, {"ops", 12.34, "12.3/s"}, {"short", 12345, "12,345"},
	} {
		if got := c.unit.Format(c.value); got != c.want {
			t.Errorf("%v in %s: %q, want %q", c.value, c.unit, got, c.want)
		}
	}
}
