//go:build dashboards

package dashboards

import (
	"cmp"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/hack/plots/plot"
)

// pictureBytesMax is the maximum size of a picture in the documents.
const pictureBytesMax = 300 << 10

// pointsMax is the maximum number of points of a line in a picture.
const pointsMax = 150

// draw writes a picture of each dashboard to docs/pictures.
func draw(t *testing.T, boards map[string][]shown, titles map[string]string) {
	t.Helper()
	for name, panels := range boards {
		b := plot.Board{Title: titles[name], Notes: []string{
			"Drawn from the panels' queries, as Prometheus answered them in a run of make " +
				"dashboards on " + time.Now().UTC().Format(time.DateOnly) + ". No screenshot of " +
				"Grafana: its colours, fonts and axes differ.",
			"In the run a cleaner was stopped, a broker was killed, and the API server was " +
				"unreachable, one after the other. Other LogClusters had other faults.",
		}}
		for _, one := range panels {
			b.Panels = append(b.Panels, one.plot())
		}
		picture := b.SVG()
		if len(picture) > pictureBytesMax {
			t.Errorf("the picture of %s has %d bytes, more than %d", name, len(picture),
				pictureBytesMax)
		}
		file := filepath.Join("../../docs/pictures", "dashboard-"+name+".svg")
		if err := os.WriteFile(file, []byte(picture), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// plot returns the panel in the form that package plot draws.
func (s shown) plot() plot.Panel {
	defaults := s.FieldConfig.Defaults
	p := plot.Panel{Title: s.Title, X: s.GridPos.X, Y: s.GridPos.Y, W: s.GridPos.W, H: s.GridPos.H,
		Unit: plot.Unit(defaults.Unit), Min: defaults.Min, Max: defaults.Max}
	switch s.Type {
	case "row":
		p.Kind = plot.Heading
	case "table":
		p.Kind = plot.Table
		p.Columns, p.Rows = s.table()
	case "timeseries":
		p.Kind = plot.TimeSeries
		p.Lines = s.lines()
	default:
		p.Lines = s.lines()
	}
	return p
}

// lines returns the series of all queries in a panel. A line has a gap where its series has no
// sample.
func (s shown) lines() (lines []plot.Line) {
	for _, target := range s.Targets {
		for _, one := range s.results[target.RefID] {
			line := plot.Line{Name: legendOf(target, one.Metric)}
			for i, v := range one.Values {
				if gap := 1.5 * scrapeInterval.Seconds(); i > 0 && v.index-one.Values[i-1].index > gap {
					line.Points = append(line.Points, plot.Sample{At: one.Values[i-1].index + gap/2,
						Value: math.NaN()})
				}
				line.Points = append(line.Points, plot.Sample{At: v.index, Value: v.value})
			}
			line.Points = plot.Thin(line.Points, pointsMax)
			lines = append(lines, line)
		}
	}
	slices.SortStableFunc(lines, func(a, b plot.Line) int { return cmp.Compare(a.Name, b.Name) })
	return lines
}

// table merges the results of all queries by their common labels, like Grafana's transformation
// merge. It names and orders the columns like the transformation organize. It shows the time at
// which most partitions were being cleaned.
func (s shown) table() (columns []string, rows [][]string) {
	index := s.busiest()
	cells := map[string]map[string]string{} // cells by topic and partition
	for _, target := range s.Targets {
		unit := plot.Unit(s.unit(target))
		for _, one := range s.results[target.RefID] {
			value, ok := valueAt(one, index)
			if !ok {
				continue
			}
			key := one.Metric["topic"] + "/" + one.Metric["partition"]
			if cells[key] == nil {
				cells[key] = map[string]string{}
			}
			maps.Copy(cells[key], one.Metric)
			cells[key]["Value #"+target.RefID] = unit.Format(value)
		}
	}
	organize := s.Transformations[len(s.Transformations)-1].Options
	ordered := slices.SortedFunc(maps.Keys(organize.IndexByName), func(a, b string) int {
		return cmp.Compare(organize.IndexByName[a], organize.IndexByName[b])
	})
	for _, name := range ordered {
		columns = append(columns, cmp.Or(organize.RenameByName[name],
			strings.TrimPrefix(name, "Value #")))
	}
	for _, key := range slices.Sorted(maps.Keys(cells)) {
		var row []string
		for _, name := range ordered {
			row = append(row, cmp.Or(cells[key][name], "-"))
		}
		rows = append(rows, row)
	}
	return columns, rows
}

// busiest returns the time in seconds at which the query for the progress has the most series.
func (s shown) busiest() float64 {
	count := map[float64]int{}
	best := 0.0
	for _, one := range s.results["B"] {
		for _, v := range one.Values {
			count[v.index]++
			if n, most := count[v.index], count[best]; n > most {
				best = v.index
			}
		}
	}
	return best
}

func valueAt(curve series, index float64) (float64, bool) {
	for _, v := range curve.Values {
		if v.index == index {
			return v.value, true
		}
	}
	return 0, false
}
