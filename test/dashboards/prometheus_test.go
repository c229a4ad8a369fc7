//go:build dashboards

package dashboards

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/ports"
)

// scrapeInterval is short enough to observe a state that lasts for ten seconds.
const scrapeInterval = 2 * time.Second

// prometheus is a running Prometheus. It sends alerts to an Alertmanager, which sends them to this
// test.
type prometheus struct {
	t       *testing.T
	address string

	began time.Time

	mu       sync.Mutex
	notified map[string][]map[string]string // labels of firing alerts received from Alertmanager
	raised   map[string]bool                // alerts that a state of the scenario is expected to raise
}

// notification is the body of an Alertmanager webhook.
type notification struct {
	Alerts []struct {
		Status string
		Labels map[string]string
	}
}

// startPrometheus runs Prometheus and Alertmanager until the end of the test.
func (w *world) startPrometheus(rules string) *prometheus {
	w.t.Helper()
	p := &prometheus{t: w.t, address: ports.Free(w.t, 1), began: time.Now(),
		notified: map[string][]map[string]string{}, raised: map[string]bool{}}
	hook := httptest.NewServer(http.HandlerFunc(p.receive))
	w.t.Cleanup(hook.Close)
	alertmanager := ports.Free(w.t, 1)
	dir := filepath.Join(w.dir, "prometheus")
	write := func(name, content string) string {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			w.t.Fatal(err)
		}
		return file
	}
	write("rules.yaml", rules)
	config := write("prometheus.yaml", w.prometheusConfig(alertmanager))
	route := write("alertmanager.yaml", fmt.Sprintf(`
route: {receiver: test, group_by: ['...'], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}
receivers: [{name: test, webhook_configs: [{url: %q, send_resolved: false}]}]
`, hook.URL))
	run(w.t, "prometheus-alertmanager", "--config.file="+route, "--cluster.listen-address=",
		"--storage.path="+filepath.Join(dir, "alertmanager"),
		"--web.listen-address="+alertmanager)
	run(w.t, "prometheus", "--config.file="+config, "--web.listen-address="+p.address,
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--query.lookback-delta=10s")
	await.For(w.t, func() string {
		if !listens(p.address) || !listens(alertmanager) {
			return "Prometheus and Alertmanager do not listen"
		}
		return ""
	})
	return p
}

// prometheusConfig contains the targets with the same labels as the chart's PodMonitors attach.
func (w *world) prometheusConfig(alertmanager string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "global: {scrape_interval: %s, evaluation_interval: %s, scrape_timeout: %s}\n",
		scrapeInterval, scrapeInterval, scrapeInterval)
	fmt.Fprintf(&b, "rule_files: [rules.yaml]\nalerting:\n  alertmanagers:\n"+
		"  - static_configs: [{targets: [%q]}]\nscrape_configs:\n", alertmanager)
	fmt.Fprintf(&b, "- job_name: operator\n  honor_labels: true\n  static_configs:\n"+
		"  - {targets: [%q], labels: {namespace: system, pod: operator}}\n", w.metrics)
	for _, pods := range w.clusters {
		scheme := map[bool]string{true: "https", false: "http"}[pods.secured]
		fmt.Fprintf(&b, "- job_name: %s\n  scheme: %s\n  tls_config: {insecure_skip_verify: true}\n"+
			"  static_configs:\n", pods.cluster, scheme)
		for broker := range pods.brokers {
			fmt.Fprintf(&b, "  - {targets: [%q], labels: {namespace: %q, pod: %q, logcluster: %q}}\n",
				w.address(pods.cluster, broker)+":9644", w.namespace, podName(pods.cluster, broker),
				pods.cluster)
		}
	}
	return b.String()
}

// run starts a program and kills it at the end of the test.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	command := exec.Command(name, args...)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("log of %s:\n%s", name, tail(string(text), 2000))
		}
		_ = log.Close()
	})
}

// receive is the webhook that Alertmanager calls.
func (p *prometheus) receive(_ http.ResponseWriter, r *http.Request) {
	var n notification
	if err := json.NewDecoder(r.Body).Decode(&n); err != nil {
		p.t.Errorf("decode the webhook of Alertmanager: %v", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, alert := range n.Alerts {
		if name := alert.Labels["alertname"]; alert.Status == "firing" {
			if !slices.ContainsFunc(p.notified[name], func(labels map[string]string) bool {
				return clusterOf(labels) == clusterOf(alert.Labels)
			}) {
				p.t.Logf("after %s Alertmanager: %s fires: %v", p.elapsed(), name, alert.Labels)
			}
			p.notified[name] = append(p.notified[name], alert.Labels)
		}
	}
}

// elapsed returns the time since Prometheus was started.
func (p *prometheus) elapsed() time.Duration { return time.Since(p.began).Round(time.Second) }

// clusterOf returns the LogCluster that an alert concerns; "" if it concerns none.
func clusterOf(labels map[string]string) string {
	return cmp.Or(labels["logcluster"], labels["cluster"], labels["name"])
}

// fired reports whether Alertmanager has sent an alert about a LogCluster.
func (p *prometheus) fired(name, cluster string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.notified[name],
		func(labels map[string]string) bool { return clusterOf(labels) == cluster })
}

// forget removes the received notifications of an alert.
func (p *prometheus) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.notified, name)
}

// until waits until all given alerts about a LogCluster have fired, or the deadline has passed.
func (p *prometheus) until(deadline time.Duration, cluster string, alerts ...string) {
	p.mu.Lock()
	for _, name := range alerts {
		p.raised[name] = true
	}
	p.mu.Unlock()
	end := time.Now().Add(deadline)
	for _, name := range alerts {
		for !p.fired(name, cluster) && time.Now().Before(end) {
			time.Sleep(time.Second)
		}
		if !p.fired(name, cluster) {
			p.t.Errorf("%s has not fired within %s for LogCluster %q", name, deadline, cluster)
		}
	}
}

// get decodes the field data in a response of Prometheus' API.
func (p *prometheus) get(path string, parameters url.Values, into any) error {
	response, err := http.Get("http://" + p.address + path + "?" + parameters.Encode())
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var outer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(body, &outer); err != nil {
		return fmt.Errorf("%s: %w in %s", path, err, body)
	}
	if outer.Status != "success" {
		return fmt.Errorf("%s: %s", path, outer.Error)
	}
	return json.Unmarshal(outer.Data, into)
}

// sample is a time in seconds with a value.
type sample struct{ index, value float64 }

// UnmarshalJSON decodes [1700000000.1, "1.5"].
func (s *sample) UnmarshalJSON(data []byte) error {
	var value string
	if err := json.Unmarshal(data, &[]any{&s.index, &value}); err != nil {
		return err
	}
	var err error
	s.value, err = strconv.ParseFloat(value, 64)
	return err
}

// series is one series of a result.
type series struct {
	Metric map[string]string
	Values []sample
}

// span is the time span of a test that panels show.
type span struct{ from, to time.Time }

// query evaluates an expression at each scrape interval of a span.
func (p *prometheus) query(expr string, in span) ([]series, error) {
	var data struct{ Result []series }
	seconds := func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
	err := p.get("/api/v1/query_range", url.Values{"query": {expr}, "start": {seconds(in.from)},
		"end": {seconds(in.to)}, "step": {scrapeInterval.String()}}, &data)
	return data.Result, err
}

// value returns the largest present value of an expression; 0 if it has no series.
func (p *prometheus) value(expr string) (largest float64) {
	var data struct{ Result []struct{ Value sample } }
	if err := p.get("/api/v1/query", url.Values{"query": {expr}}, &data); err != nil {
		p.t.Error(err)
	}
	for _, s := range data.Result {
		largest = max(largest, s.Value.value)
	}
	return largest
}

// labelValues evaluates Grafana's label_values(match, label).
func (p *prometheus) labelValues(match, label string) (values []string, err error) {
	err = p.get("/api/v1/label/"+label+"/values", url.Values{"match[]": {match}}, &values)
	return values, err
}
