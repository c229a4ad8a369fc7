package chart

import (
	"cmp"
	"os"
	"os/exec"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// alertCases is the content of config/prometheus/rules_test.yaml, a test file for promtool.
type alertCases struct {
	RuleFiles          []string `json:"rule_files"`
	EvaluationInterval string   `json:"evaluation_interval"`
	Tests              []struct {
		Name        string
		Interval    string
		InputSeries []struct{ Series, Values string } `json:"input_series"`
		Queries     []struct {
			Expr     string
			EvalTime string `json:"eval_time"`
			Samples  []struct {
				Labels string
				Value  float64
			} `json:"exp_samples"`
		} `json:"promql_expr_test"`
	}
}

// TestEachAlertHasACase checks that each alert has a case in which it does not fire at first, and
// later is the only alert that fires.
func TestEachAlertHasACase(t *testing.T) {
	var all rules
	if err := yaml.UnmarshalStrict([]byte(readFile(t, "config/prometheus/rules.yaml")),
		&all); err != nil {
		t.Fatal(err)
	}
	var file alertCases
	if err := yaml.UnmarshalStrict([]byte(readFile(t, "config/prometheus/rules_test.yaml")),
		&file); err != nil {
		t.Fatal(err)
	}
	cases := map[string]bool{}
	known := documented(t)
	for _, test := range file.Tests {
		cases[test.Name] = true
		for _, input := range test.InputSeries {
			checkQuery(t, "case "+test.Name, input.Series, known)
		}
		if len(test.Queries) != 2 || len(test.Queries[0].Samples) != 0 ||
			len(test.Queries[1].Samples) != 1 {
			t.Errorf("case %s: want no alert at the first time and one at the second", test.Name)
			continue
		}
		if labels := test.Queries[1].Samples[0].Labels; !strings.Contains(labels,
			`alertname="`+test.Name+`"`) {
			t.Errorf("case %s expects another alert: %s", test.Name, labels)
		}
	}
	for _, group := range all.Groups {
		for _, rule := range group.Rules {
			if !cases[rule.Alert] {
				t.Errorf("alert %s has no case in config/prometheus/rules_test.yaml", rule.Alert)
			}
			delete(cases, rule.Alert)
		}
	}
	for name := range cases {
		t.Errorf("case %s belongs to no alert", name)
	}
}

// TestAlertsFire runs the cases with promtool. The environment variable PROMTOOL names the binary;
// without it, PATH is searched.
func TestAlertsFire(t *testing.T) {
	promtool, err := exec.LookPath(cmp.Or(os.Getenv("PROMTOOL"), "promtool"))
	if err != nil {
		t.Skipf("SKIPPED: no alert was evaluated, because there is no promtool: %v", err)
	}
	for _, args := range [][]string{{"check", "rules", "rules.yaml"},
		{"test", "rules", "rules_test.yaml"}} {
		command := exec.CommandContext(t.Context(), promtool, args...)
		command.Dir = root + "config/prometheus"
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
