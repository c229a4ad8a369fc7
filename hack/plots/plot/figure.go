package plot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Figure is a picture with one or more charts that share a legend. The files in
// docs/internals/bench/results contain its JSON form.
type Figure struct {
	Title   string   `json:"title"`
	Series  []string `json:"series"`            // names in the order of the legend, at most seriesMax
	Columns int      `json:"columns,omitempty"` // charts side by side: 1 (default) or 2
	Charts  []Chart  `json:"charts"`
	Notes   []string `json:"notes"` // lines below the charts: the source of the values
}

// Chart shows the measurements of its rows on one axis of values. By default, the rows are
// categories, from top to bottom. If X is set, each row is a position on a horizontal axis.
type Chart struct {
	Title string `json:"title"`
	Axis  string `json:"axis"`           // description of the values, with their unit
	Log   bool   `json:"log,omitempty"`  // true for a logarithmic axis of values > 0
	X     string `json:"x,omitempty"`    // description of the positions, with their unit
	LogX  bool   `json:"logX,omitempty"` // true for a logarithmic axis of positions > 0
	Rows  []Row  `json:"rows"`
}

// Row contains the measurements of one category or position, by the names of their series.
type Row struct {
	Label  string                   `json:"label,omitempty"`
	X      float64                  `json:"x,omitempty"`
	Target *float64                 `json:"target,omitempty"`
	Values map[string][]Measurement `json:"values"`
}

// Measurement is one run, or a summary of several runs whose individual values no longer exist. In
// JSON, a run is a number and a summary is an object.
type Measurement struct {
	// Median is the run's value if Summary is false. It is NaN if only a range is known.
	Median   float64
	Min, Max float64 // range of a summary; equal to Median in a run
	Summary  bool
}

// Run returns the measurement of a single run.
func Run(value float64) Measurement {
	return Measurement{Median: value, Min: value, Max: value}
}

// summary is the JSON form of a Measurement that summarizes several runs. Without min and max, the
// range is unknown. Without median, only the range is known.
type summary struct {
	Median *float64 `json:"median,omitempty"`
	Min    *float64 `json:"min,omitempty"`
	Max    *float64 `json:"max,omitempty"`
}

// UnmarshalJSON decodes a number or an object with median, min and max.
func (m *Measurement) UnmarshalJSON(data []byte) error {
	var value float64
	if json.Unmarshal(data, &value) == nil {
		*m = Run(value)
		return nil
	}
	var s summary
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		return fmt.Errorf("decode measurement %s: %w", data, err)
	}
	if (s.Min == nil) != (s.Max == nil) || s.Median == nil && s.Min == nil {
		return fmt.Errorf("decode measurement %s: want a number, a median, or min and max", data)
	}
	*m = Measurement{Median: math.NaN(), Summary: true}
	if s.Median != nil {
		m.Median, m.Min, m.Max = *s.Median, *s.Median, *s.Median
	}
	if s.Min != nil {
		m.Min, m.Max = *s.Min, *s.Max
	}
	return nil
}

// MarshalJSON encodes a run as a number and a summary as an object.
func (m Measurement) MarshalJSON() ([]byte, error) {
	if !m.Summary {
		return json.Marshal(m.Median)
	}
	s := summary{Min: &m.Min, Max: &m.Max}
	if !math.IsNaN(m.Median) {
		s.Median = &m.Median
	}
	return json.Marshal(s)
}

// Decode parses and validates the JSON form of a figure.
func Decode(data []byte) (Figure, error) {
	var f Figure
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&f); err != nil {
		return Figure{}, fmt.Errorf("decode figure: %w", err)
	}
	if err := f.validate(); err != nil {
		return Figure{}, fmt.Errorf("validate figure: %w", err)
	}
	return f, nil
}

// validate returns an error with all faults.
func (f Figure) validate() error {
	var faults []error
	if f.Title == "" || len(f.Charts) == 0 || len(f.Notes) == 0 {
		faults = append(faults, errors.New("title, charts and notes must not be empty"))
	}
	if len(f.Series) == 0 || len(f.Series) > seriesMax {
		faults = append(faults, fmt.Errorf("%d series: want 1 to %d", len(f.Series), seriesMax))
	}
	if f.Columns < 0 || f.Columns > 2 {
		faults = append(faults, fmt.Errorf("%d columns: want 1 or 2", f.Columns))
	}
	for _, chart := range f.Charts {
		if chart.Title == "" || chart.Axis == "" || len(chart.Rows) == 0 {
			faults = append(faults,
				fmt.Errorf("chart %q: title, axis and rows must not be empty", chart.Title))
		}
		for _, row := range chart.Rows {
			if err := f.validateRow(chart, row); err != nil {
				faults = append(faults, fmt.Errorf("chart %q, row %q (%v): %w", chart.Title,
					row.Label, row.X, err))
			}
		}
	}
	return errors.Join(faults...)
}

func (f Figure) validateRow(chart Chart, row Row) error {
	if (chart.X == "") == (row.Label == "") {
		return errors.New("want a label, or a position in a chart with positions")
	}
	if chart.X != "" && row.Target != nil {
		return errors.New("a chart with positions has no targets")
	}
	if chart.LogX && row.X <= 0 || chart.Log && row.Target != nil && *row.Target <= 0 {
		return errors.New("want values above 0 on a logarithmic axis")
	}
	if len(row.Values) == 0 {
		return errors.New("no measurements")
	}
	for name, measurements := range row.Values {
		if !slices.Contains(f.Series, name) {
			return fmt.Errorf("unknown series %q", name)
		}
		for _, m := range measurements {
			switch {
			case m.Min > m.Max || m.Median < m.Min || m.Median > m.Max:
				return fmt.Errorf("series %q: median outside of its range: %+v", name, m)
			case chart.Log && m.Min <= 0:
				return fmt.Errorf("series %q: want values above 0 on a logarithmic axis", name)
			case m.Min < 0:
				return fmt.Errorf("series %q: negative value", name)
			}
		}
	}
	return nil
}

// median returns the median of the measurements that have one. It returns false if there are none.
func median(measurements []Measurement) (float64, bool) {
	var values []float64
	for _, m := range measurements {
		if !math.IsNaN(m.Median) {
			values = append(values, m.Median)
		}
	}
	if len(values) == 0 {
		return 0, false
	}
	slices.Sort(values)
	if middle := len(values) / 2; len(values)%2 == 1 {
		return values[middle], true
	}
	return (values[len(values)/2-1] + values[len(values)/2]) / 2, true
}
