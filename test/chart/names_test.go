package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const root = "../../"

// metric matches the names of metrics in a query or in a documentation page.
var metric = regexp.MustCompile(`\b(?:heartwood|process|controller_runtime)_[a-z_]+\b`)

// documented returns the names of those metrics in docs/operate/metrics.md that brokers export by
// default. test/smoke checks that the running binary exports exactly these metrics. For a
// histogram, the result includes the names of its _bucket, _sum and _count series.
func documented(t *testing.T) map[string]bool {
	t.Helper()
	page, err := os.ReadFile(root + "docs/operate/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	byDefault, _, found := strings.Cut(string(page), "\n## Only with spec.metrics.partitions Full\n")
	if !found {
		t.Fatal("docs/operate/metrics.md does not say which metrics are not exported by default")
	}
	names := map[string]bool{}
	for _, name := range metric.FindAllString(byDefault, -1) {
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			names[name+suffix] = true
		}
	}
	if len(names) == 0 {
		t.Fatal("docs/operate/metrics.md contains no metric")
	}
	return names
}

// checkQuery fails the test if query names an unknown metric, or none at all.
func checkQuery(t *testing.T, where, query string, known map[string]bool) {
	t.Helper()
	names := metric.FindAllString(query, -1)
	if len(names) == 0 {
		t.Errorf("%s uses no Heartwood metric: %s", where, query)
	}
	for _, name := range names {
		if !known[name] {
			t.Errorf("%s uses %s, which is not in docs/operate/metrics.md", where, name)
		}
	}
	if open := strings.Count(query, "(") - strings.Count(query, ")"); open != 0 ||
		strings.Count(query, "{") != strings.Count(query, "}") {
		t.Errorf("%s has unbalanced brackets: %s", where, query)
	}
}

type dashboard struct {
	Title      string
	UID        string
	Panels     []panel
	Templating struct {
		List []struct {
			Name, Type, Definition string
			Current                struct{ Text, Value any }
		}
	}
}

type panel struct {
	ID          int
	Type, Title string
	Description string
	GridPos     struct{ H, W, X, Y int }
	Targets     []struct{ Expr, RefID, LegendFormat string }
	Datasource  struct{ UID string }
}

func TestDashboardsUseDocumentedMetrics(t *testing.T) {
	known := documented(t)
	metrics := inventory(readFile(t, "docs/operate/metrics.md"))
	contents := ""
	files, err := filepath.Glob(root + "charts/heartwood/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		contents += string(content)
		var board dashboard
		if err := json.Unmarshal(content, &board); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if board.Title == "" || board.UID == "" {
			t.Errorf("%s has no title or uid", file)
		}
		checkVariables(t, file, board, known)
		ids := map[int]string{}
		for _, p := range board.Panels {
			if other, taken := ids[p.ID]; taken {
				t.Errorf("panels %q and %q have the same id", p.Title, other)
			}
			ids[p.ID] = p.Title
			checkPanel(t, p, known, metrics)
		}
	}
	for _, name := range requiredOnDashboards {
		if !strings.Contains(contents, "heartwood_"+name+"{") {
			t.Errorf("no panel shows heartwood_%s", name)
		}
	}
}

// requiredOnDashboards are the metrics of the cleaner's state. Each must be on a dashboard.
var requiredOnDashboards = []string{
	"cleaner_phase", "cleaner_reason", "cleaner_progress_ratio", "cleaner_eta_seconds",
	"log_dirty_ratio", "broker_log_clean_bytes", "broker_log_dirty_bytes",
	"broker_log_blocked_bytes", "log_reclaimable_bytes", "broker_cleaner_read_bytes_total",
	"broker_cleaner_written_bytes_total", "broker_cleaner_reclaimed_bytes_total",
	"broker_cleaner_removed_records_total", "broker_cleaner_runs_total", "cleaner_overdue_seconds",
	"cleaner_last_success_timestamp_seconds",
	"cleaner_quarantined_partitions", "cleaner_queue_length", "cleaner_workers_busy",
	"cleaner_memory_bytes", "cleaner_throttled_seconds_total",
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(root + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// checkVariables checks that the dashboard defines every variable in its panels' queries. Each
// variable must have a present value, because Grafana's schema requires it.
func checkVariables(t *testing.T, file string, board dashboard, known map[string]bool) {
	t.Helper()
	found := map[string]bool{}
	for _, variable := range board.Templating.List {
		found[variable.Name] = true
		if variable.Current.Text == nil || variable.Current.Value == nil {
			t.Errorf("%s: variable %s has no current text and value", file, variable.Name)
		}
		if variable.Type == "query" {
			checkQuery(t, "variable "+variable.Name, variable.Definition, known)
		}
	}
	used := map[string]bool{"datasource": true, "namespace": true, "logcluster": true}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			used["topic"] = used["topic"] || strings.Contains(target.Expr, "$topic")
		}
	}
	for name := range used {
		if used[name] && !found[name] {
			t.Errorf("%s has no variable %s", file, name)
		}
	}
}

func checkPanel(t *testing.T, p panel, known map[string]bool, metrics map[string]metricOf) {
	t.Helper()
	if p.Type == "row" {
		return
	}
	if p.Title == "" || p.Description == "" || len(p.Targets) == 0 {
		t.Errorf("panel %d %q has no title, description or query", p.ID, p.Title)
	}
	if p.Datasource.UID != "${datasource}" {
		t.Errorf("panel %q has the fixed data source %q", p.Title, p.Datasource.UID)
	}
	if p.GridPos.W == 0 || p.GridPos.X+p.GridPos.W > 24 {
		t.Errorf("panel %q is outside the grid", p.Title)
	}
	refs := map[string]bool{}
	for _, target := range p.Targets {
		checkQuery(t, "panel "+p.Title, target.Expr, known)
		if parsed, err := parsePromQL(target.Expr, metrics); err != nil {
			t.Errorf("panel %q: %v: %s", p.Title, err, target.Expr)
		} else if err := checkLegend(target.LegendFormat, parsed); err != nil {
			t.Errorf("panel %q: %v", p.Title, err)
		}
		if refs[target.RefID] {
			t.Errorf("panel %q has two queries with refId %s", p.Title, target.RefID)
		}
		refs[target.RefID] = true
		if !strings.Contains(target.Expr, `=~"$logcluster"`) &&
			!strings.Contains(target.Expr, "heartwood_operator_") {
			t.Errorf("panel %q does not filter by the variable logcluster: %s", p.Title,
				target.Expr)
		}
	}
}

type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert       string
			Expr        string
			For         string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

func TestAlertsUseDocumentedMetricsAndHaveARunbook(t *testing.T) {
	known := documented(t)
	content, err := os.ReadFile(root + "config/prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all rules
	if err := yaml.UnmarshalStrict(content, &all); err != nil {
		t.Fatal(err)
	}
	alerts := map[string]bool{}
	for _, group := range all.Groups {
		for _, rule := range group.Rules {
			if alerts[rule.Alert] {
				t.Errorf("two alerts have the name %s", rule.Alert)
			}
			alerts[rule.Alert] = true
			checkQuery(t, "alert "+rule.Alert, rule.Expr, known)
			if _, err := parsePromQL(rule.Expr,
				inventory(readFile(t, "docs/operate/metrics.md"))); err != nil {
				t.Errorf("alert %s: %v: %s", rule.Alert, err, rule.Expr)
			}
			if rule.For == "" || rule.Labels["severity"] == "" ||
				rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("alert %s has no for, severity, summary or description", rule.Alert)
			}
			page := "/docs/operate/runbooks/" + rule.Alert + ".md"
			if !strings.HasSuffix(rule.Annotations["runbook_url"], page) {
				t.Errorf("alert %s has the runbook_url %q, want its page %s", rule.Alert,
					rule.Annotations["runbook_url"], page)
			}
		}
	}
	checkRunbooks(t, alerts, known)
}

// checkRunbooks checks that every alert has a page and every page has an alert. The pages must use
// documented metrics and have the required sections.
func checkRunbooks(t *testing.T, alerts, known map[string]bool) {
	t.Helper()
	files, err := filepath.Glob(root + "docs/operate/runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]bool{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".md")
		if name == "README" { // the list of the runbooks
			continue
		}
		pages[name] = true
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !alerts[name] {
			t.Errorf("%s belongs to no alert", file)
		}
		checkQuery(t, file, string(content), known)
		for _, heading := range []string{"# " + name, "## Diagnose", "## Resolve"} {
			if !strings.Contains(string(content), heading+"\n") {
				t.Errorf("%s has no heading %q", file, heading)
			}
		}
	}
	for name := range alerts {
		if !pages[name] {
			t.Errorf("alert %s has no page in docs/operate/runbooks", name)
		}
	}
}
