//go:build dashboards

package dashboards

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// shortened contains the differences between the test's rules and the chart's rules, besides `for`.
// For each alert it lists pairs of a text and its replacement. All other expressions are unchanged.
var shortened = map[string][]string{
	"HeartwoodCleanerOverdue":        {"> 3600", "> 5"},
	"HeartwoodRebalanceStuck":        {"[10m]", "[30s]"},
	"HeartwoodReconcileFailing":      {"> 1800", "> 100"},
	"HeartwoodAuthenticationFailing": {"[5m]", "[30s]"},
	"HeartwoodVolumeFullSoon":        {"[6h], 86400", "[30s], 60"},
}

// waits contains the values of `for` in the test's rules that differ from 4 s. The first is longer
// because the operator reports the bytes copied by a run of moves only every 15 s. The second is
// longer because a new topic's partitions have no leader until the operator has elected one.
var waits = map[string]string{"HeartwoodRebalanceStuck": "30s",
	"HeartwoodPartitionWithoutLeader": "15s"}

// shortRules returns the chart's rules with shorter times, and the names of all alerts.
func shortRules(t *testing.T) (rules string, alerts []string) {
	t.Helper()
	content, err := os.ReadFile("../../config/prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string           `json:"name"`
			Rules []map[string]any `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	left := maps.Clone(shortened)
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			name, expr := rule["alert"].(string), rule["expr"].(string)
			for pair := range slices.Chunk(left[name], 2) {
				if !strings.Contains(expr, pair[0]) {
					t.Fatalf("the rule of %s does not contain %q any more", name, pair[0])
				}
				expr = strings.ReplaceAll(expr, pair[0], pair[1])
			}
			delete(left, name)
			rule["expr"], rule["for"] = expr, cmp.Or(waits[name], "4s")
			alerts = append(alerts, name)
		}
	}
	if len(left) > 0 {
		t.Fatalf("no rules: %v", left)
	}
	out, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(out), alerts
}

// checkHealthy checks that no alert fired while all clusters were healthy.
func checkHealthy(t *testing.T, p *prometheus, in span) {
	t.Helper()
	found, err := p.query(`ALERTS{alertstate="firing"}`, in)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range found {
		t.Errorf("an alert fired in a healthy cluster: %v", s.Metric)
	}
}
