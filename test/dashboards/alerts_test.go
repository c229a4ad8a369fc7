//go:build dashboards

package dashboards

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// shortened lists what differs in the rules of the test, besides `for`: pairs of a text and its
// replacement, by alert. All other expressions are those of the chart.
var shortened = map[string][]string{
	"HeartwoodCleanerOverdue":        {"> 3600", "> 5"},
	"HeartwoodRebalanceStuck":        {"[10m]", "[20s]"},
	"HeartwoodReconcileFailing":      {"> 1800", "> 45"},
	"HeartwoodAuthenticationFailing": {"[5m]", "[30s]"},
	"HeartwoodVolumeFullSoon":        {"[6h], 86400", "[30s], 86400000", "< 0.5", "< 1"},
}

// always lists alerts that the shortened rules may raise in a healthy cluster, because they see
// noise: the free space of a disk that other programs use.
var always = []string{"HeartwoodVolumeFullSoon", "HeartwoodReconcileFailing"}

// unreached lists the alerts that the scenario does not raise: promtool tests them (make alerts).
// HeartwoodCleanerStalled reports a fault of the cleaner itself: without workers, logs do not wait
// but become overdue.
var unreached = []string{"HeartwoodCleanerStalled", "HeartwoodPartitionOffline",
	"HeartwoodPartitionUnderMinISR", "HeartwoodFileDescriptorsLow",
	"HeartwoodPartitionQuarantined", "HeartwoodTransactionLate", "HeartwoodTransactionHanging",
	"HeartwoodTransactionMarkersPending", "HeartwoodRebalanceStuck", "HeartwoodSpecNotApplied",
	"HeartwoodBrokerRestarting", "HeartwoodAuthenticationFailing", "HeartwoodVolumeFilling",
	"HeartwoodVolumeFull"}

// shortRules returns the rules of the chart with shorter times, and the names of all alerts.
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
			rule["expr"], rule["for"] = expr, "4s"
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

// checkHealthy checks that no alert fired while the cluster was healthy.
func checkHealthy(t *testing.T, p *prometheus, in span) {
	t.Helper()
	found, err := p.query(`ALERTS{alertstate="firing"}`, in)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range found {
		if !slices.Contains(always, s.Metric["alertname"]) {
			t.Errorf("an alert fired in a healthy cluster: %v", s.Metric)
		}
	}
}
