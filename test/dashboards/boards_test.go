//go:build dashboards

package dashboards

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// board contains the parts of a dashboard that the test evaluates.
type board struct {
	Title      string
	Templating struct {
		List []struct{ Name, Type, Definition, AllValue string }
	}
	Panels []panel
}

type panel struct {
	ID          int
	Title, Type string
	GridPos     struct{ X, Y, W, H int }
	FieldConfig struct {
		Defaults struct {
			Unit string
			Min  *float64
			Max  *float64
		}
		Overrides []struct {
			Matcher    struct{ ID, Options string }
			Properties []struct {
				ID    string
				Value json.RawMessage
			}
		}
	}
	Targets         []target
	Transformations []struct {
		ID      string
		Options struct {
			ExcludeByName map[string]bool
			IndexByName   map[string]int
			RenameByName  map[string]string
		}
	}
}

type target struct{ RefID, Expr, LegendFormat, Format string }

// rateInterval is the value of Grafana's $__rate_interval: four times the scrape interval.
var rateInterval = (4 * scrapeInterval).String()

// units contains the range of values for each unit. The time since an event can be negative,
// because a broker can compute the event's time after the start of the scrape.
var units = map[string][2]float64{
	"percentunit": {0, 1}, "short": {0, 1e9}, "bytes": {0, 1e15}, "Bps": {0, 1e12},
	"s": {-scrapeInterval.Seconds(), 1e9}, "cps": {0, 1e9}, "ops": {0, 1e9}, "reqps": {0, 1e9},
}

func readBoards(t *testing.T) map[string]board {
	t.Helper()
	files, err := filepath.Glob("../../charts/heartwood/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	boards := map[string]board{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var b board
		if err := json.Unmarshal(content, &b); err != nil {
			t.Fatal(err)
		}
		boards[strings.TrimSuffix(filepath.Base(file), ".json")] = b
	}
	return boards
}

// results contains the series of each query in a panel, by refId.
type results map[string][]series

// checkBoards evaluates all dashboards for cluster main, and draws them if PICTURES is 1.
func checkBoards(t *testing.T, p *prometheus, namespace string, in span) {
	t.Helper()
	all, titles := map[string][]shown{}, map[string]string{}
	for name, b := range readBoards(t) {
		titles[name] = b.Title
		variables := b.variables(t, p, namespace)
		queries := 0
		for _, one := range b.Panels {
			if one.Type == "row" {
				all[name] = append(all[name], shown{panel: one})
				continue
			}
			queries += len(one.Targets)
			found := one.evaluate(t, p, b.Title, variables, in)
			all[name] = append(all[name], shown{one, found})
		}
		t.Logf("dashboard %s: %d queries were evaluated", b.Title, queries)
	}
	if os.Getenv("PICTURES") == "1" {
		draw(t, all, titles)
	}
}

// shown is a panel with its results.
type shown struct {
	panel
	results
}

// variables returns the values of a dashboard's variables: cluster main, all topics. Every query of
// a variable must return the chosen value.
func (b board) variables(t *testing.T, p *prometheus, namespace string) *strings.Replacer {
	chosen := map[string]string{"namespace": namespace, "logcluster": "main"}
	with := func() *strings.Replacer {
		pairs := []string{"$__rate_interval", rateInterval}
		for name, value := range chosen {
			pairs = append(pairs, "$"+name, value)
		}
		return strings.NewReplacer(pairs...)
	}
	call := regexp.MustCompile(`^label_values\((.*), *([a-z_]+)\)$`)
	for _, v := range b.Templating.List {
		if v.Type != "query" {
			continue
		}
		parts := call.FindStringSubmatch(v.Definition)
		if parts == nil {
			t.Fatalf("%s: variable %s is no label_values(): %s", b.Title, v.Name, v.Definition)
		}
		values, err := p.labelValues(with().Replace(parts[1]), parts[2])
		if err != nil || len(values) == 0 {
			t.Errorf("%s: variable %s has no values: %v", b.Title, v.Name, err)
		}
		if want, ok := chosen[v.Name]; ok && !slices.Contains(values, want) {
			t.Errorf("%s: variable %s has the values %v, want one of them %s", b.Title, v.Name,
				values, want)
		} else if !ok {
			chosen[v.Name] = v.AllValue
		}
	}
	return with()
}

// evaluate runs a panel's queries and checks their results.
func (p panel) evaluate(t *testing.T, from *prometheus, title string, variables *strings.Replacer,
	in span) results {
	t.Helper()
	found := results{}
	legends := map[string]bool{}
	for _, target := range p.Targets {
		where := fmt.Sprintf("%s, %s %s", title, p.Title, target.RefID)
		expr := variables.Replace(target.Expr)
		result, err := from.query(expr, in)
		if err != nil {
			t.Errorf("%s: %v: %s", where, err, expr)
			continue
		}
		finite := 0
		for _, s := range result {
			for _, v := range s.Values {
				if !math.IsNaN(v.value) && !math.IsInf(v.value, 0) {
					finite++
				}
			}
			if target.Format == "table" {
				continue
			}
			if legend := legendOf(target, s.Metric); legends[legend] {
				t.Errorf("%s: two series have the legend %q", where, legend)
			} else {
				legends[legend] = true
			}
		}
		if finite == 0 {
			t.Errorf("%s: no data: %s", where, expr)
		}
		p.checkRange(t, where, target, result)
		found[target.RefID] = result
	}
	p.checkTransformations(t, title, found)
	return found
}

var legendLabel = regexp.MustCompile(`\{\{ *([a-z_]+) *\}\}`)

// legendOf returns a series' legend as Grafana computes it.
func legendOf(query target, labels map[string]string) string {
	return legendLabel.ReplaceAllStringFunc(query.LegendFormat, func(match string) string {
		return labels[legendLabel.FindStringSubmatch(match)[1]]
	})
}

// checkRange checks that the values are in the range of the panel's unit.
func (p panel) checkRange(t *testing.T, where string, query target, found []series) {
	t.Helper()
	unit := p.unit(query)
	limits, ok := units[unit]
	if !ok && query.Format != "table" {
		t.Errorf("%s: unknown unit %q", where, unit)
	}
	if !ok {
		return
	}
	if p.FieldConfig.Defaults.Max != nil {
		limits[1] = min(limits[1], *p.FieldConfig.Defaults.Max)
	}
	for _, s := range found {
		for _, v := range s.Values {
			if !math.IsNaN(v.value) && (v.value < limits[0] || v.value > limits[1]) {
				t.Errorf("%s: value %v of %v is outside of %v for unit %s", where, v.value,
					s.Metric, limits, unit)
				break
			}
		}
	}
}

// unit returns a query's unit: the unit of the panel, or of the override for the query's column.
func (p panel) unit(query target) string {
	for _, transformation := range p.Transformations {
		name := transformation.Options.RenameByName["Value #"+query.RefID]
		for _, override := range p.FieldConfig.Overrides {
			if name != "" && override.Matcher.Options == name {
				return strings.Trim(string(override.Properties[0].Value), `"`)
			}
		}
	}
	return p.FieldConfig.Defaults.Unit
}

// checkTransformations checks that each name in a transformation or an override is a column.
func (p panel) checkTransformations(t *testing.T, title string, found results) {
	t.Helper()
	if len(p.Transformations) == 0 {
		return
	}
	columns := map[string]bool{"Time": true}
	for ref, result := range found {
		columns["Value #"+ref] = true
		for _, s := range result {
			for label := range s.Metric {
				columns[label] = true
			}
		}
	}
	renamed := maps.Clone(columns)
	for _, transformation := range p.Transformations {
		options := transformation.Options
		for _, names := range [][]string{slices.Collect(maps.Keys(options.ExcludeByName)),
			slices.Collect(maps.Keys(options.IndexByName)),
			slices.Collect(maps.Keys(options.RenameByName))} {
			for _, name := range names {
				if !columns[name] {
					t.Errorf("%s, %s: transformation %s names %q, which is no column of %v", title,
						p.Title, transformation.ID, name, slices.Sorted(maps.Keys(columns)))
				}
			}
		}
		for from, to := range options.RenameByName {
			delete(renamed, from)
			renamed[to] = true
		}
	}
	for _, override := range p.FieldConfig.Overrides {
		if !renamed[override.Matcher.Options] {
			t.Errorf("%s, %s: an override names %q, which is no column", title, p.Title,
				override.Matcher.Options)
		}
	}
}
