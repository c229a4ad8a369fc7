package plot

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden pictures in testdata")

// golden compares a picture with a file in testdata, and checks that it is well-formed XML.
func golden(t *testing.T, name, picture string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(picture))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, picture)
		}
	}
	file := filepath.Join("testdata", name+".svg")
	if *update {
		if err := os.WriteFile(file, []byte(picture), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if picture != string(want) {
		t.Errorf("the picture differs from %s; run the test with -update and view it", file)
	}
}

func decodeFile(t *testing.T, name string) Figure {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	figure, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return figure
}

func TestFigures(t *testing.T) {
	for _, name := range []string{"categories", "positions"} {
		golden(t, name, decodeFile(t, name).SVG())
	}
}

// TestEveryRunIsAMark counts each series' marks: one for each run or median, and one in the legend.
func TestEveryRunIsAMark(t *testing.T) {
	for _, name := range []string{"categories", "positions"} {
		figure := decodeFile(t, name)
		picture := figure.SVG()
		for i, series := range figure.Series {
			want := 1
			for _, chart := range figure.Charts {
				for _, row := range chart.Rows {
					for _, m := range row.Values[series] {
						if !math.IsNaN(m.Median) {
							want++
						}
					}
				}
			}
			if got := strings.Count(picture, fmt.Sprintf(`class="s%d" fill-opacity`, i)); got !=
				want {
				t.Errorf("%s: %d marks of series %s, want %d", name, got, series, want)
			}
		}
	}
}

func TestMarksAreAtTheirValues(t *testing.T) {
	figure := Figure{Title: "t", Series: []string{"a"}, Notes: []string{"n"}, Charts: []Chart{{
		Title: "c", Axis: "s", Rows: []Row{{Label: "row", Values: map[string][]Measurement{
			"a": {Run(0), Run(5), Run(10)},
		}}},
	}}}
	s, _ := figure.Charts[0].valueScale()
	s.from, s.to = margin+textWidth("row")+12, figureWidth-margin-valueWidth
	picture := figure.SVG()
	for _, value := range []float64{0, 5, 10} {
		if mark := fmt.Sprintf(`d="M%s `, px(s.at(value))); !strings.Contains(picture,
			`fill-opacity=".8" `+mark) {
			t.Errorf("no mark of value %v at %s", value, mark)
		}
	}
	if s.at(0) != s.from || s.at(10) != s.to || math.Abs(s.at(5)-(s.from+s.to)/2) > 1e-9 {
		t.Errorf("values 0, 5 and 10 of 10 are at %v, %v and %v", s.at(0), s.at(5), s.at(10))
	}
}

func TestTextIsEscaped(t *testing.T) {
	figure := decodeFile(t, "categories")
	figure.Title, figure.Series[0] = "<script>&", `"<b>"`
	figure.Notes = []string{"</svg>"}
	for i := range figure.Charts {
		for j := range figure.Charts[i].Rows {
			figure.Charts[i].Rows[j].Label = "<i>"
		}
	}
	picture := figure.SVG()
	for _, raw := range []string{"<script>", "<b>", "<i>"} {
		if strings.Contains(picture, raw) {
			t.Errorf("the picture contains %s", raw)
		}
	}
	if strings.Count(picture, "</svg>") != 1 {
		t.Error("a note ended the picture")
	}
}

func TestDecodeRejectsInvalidFigures(t *testing.T) {
	figure := func(chart, rows string) string {
		return `{"title":"t","series":["a"],"notes":["n"],"charts":[{"title":"c","axis":"s"` +
			chart + `,"rows":[` + rows + `]}]}`
	}
	if _, err := Decode([]byte(figure("", `{"label":"l","values":{"a":[1]}}`))); err != nil {
		t.Fatal(err)
	}
	for invalid, want := range map[string]string{
		`{}`: "must not be empty",
		figure("", `{"label":"l","values":{"b":[1]}}`):                            "unknown series",
		figure("", `{"label":"l","values":{}}`):                                   "no measurements",
		figure("", `{"values":{"a":[1]}}`):                                        "want a label",
		figure(`,"x":"s"`, `{"label":"l","values":{"a":[1]}}`):                    "want a label",
		figure(`,"x":"s"`, `{"x":1,"target":1,"values":{"a":[1]}}`):               "no targets",
		figure(`,"log":true`, `{"label":"l","values":{"a":[0]}}`):                 "above 0",
		figure(`,"x":"s","logX":true`, `{"x":-1,"values":{"a":[1]}}`):             "above 0",
		figure("", `{"label":"l","values":{"a":[-1]}}`):                           "negative",
		figure("", `{"label":"l","values":{"a":["1"]}}`):                          "decode measurement",
		figure("", `{"label":"l","values":{"a":[{"min":1}]}}`):                    "min and max",
		figure("", `{"label":"l","values":{"a":[{"min":2,"max":1}]}}`):            "outside",
		figure("", `{"label":"l","values":{"a":[{"median":3,"min":1,"max":2}]}}`): "outside",
		figure("", `{"label":"l","values":{"a":[{"mean":3}]}}`):                   "unknown field",
		figure(`,"colour":1`, `{"label":"l","values":{"a":[1]}}`):                 "unknown field",
		strings.Replace(figure("", `{"label":"l","values":{"a":[1]}}`), `["a"]`,
			`["a","b","c","d","e","f","g","h","i"]`, 1): "9 series",
		strings.Replace(figure("", `{"label":"l","values":{"a":[1]}}`), `"title"`,
			`"columns":3,"title"`, 1): "3 columns",
	} {
		if _, err := Decode([]byte(invalid)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", invalid, err, want)
		}
	}
}

func TestMeasurementsSurviveEncoding(t *testing.T) {
	for _, m := range []Measurement{Run(1.5), {Median: 2, Min: 1, Max: 3, Summary: true},
		{Median: math.NaN(), Min: 1, Max: 3, Summary: true}} {
		data, err := m.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var got Measurement
		if err := got.UnmarshalJSON(data); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(m) { // compared as text, because NaN is not equal to itself
			t.Errorf("%s: got %+v, want %+v", data, got, m)
		}
	}
}

func TestMedian(t *testing.T) {
	runs := func(values ...float64) (all []Measurement) {
		for _, value := range values {
			all = append(all, Run(value))
		}
		return all
	}
	for want, some := range map[float64][]Measurement{2: runs(9, 1, 2), 2.5: runs(4, 1, 9, 1),
		7: append(runs(7), Measurement{Median: math.NaN(), Min: 1, Max: 9})} {
		if got, ok := median(some); got != want || !ok {
			t.Errorf("got median %v, want %v", got, want)
		}
	}
	if _, ok := median(nil); ok {
		t.Error("got a median of no measurement")
	}
}
