package process

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Get sends a request for a path to the process's HTTP server. It returns the status and the body.
func (s Setup) Get(t *testing.T, path string) (int, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(WithDeadline(t), http.MethodGet,
		"http://"+s.HTTP+path,
		http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, body
}

// GetJSON decodes the JSON at a path of the process's HTTP server. The test fails if the status is
// not 200.
func (s Setup) GetJSON(t *testing.T, path string, into any) {
	t.Helper()
	status, body := s.Get(t, path)
	if status != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, status, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatalf("GET %s: %v in %s", path, err, body)
	}
}

// Metrics contains the metric families of /metrics, by name.
type Metrics map[string]*dto.MetricFamily

// Metrics returns the metrics that the process exports at /metrics.
func (s Setup) Metrics(t *testing.T) Metrics {
	t.Helper()
	request, err := http.NewRequestWithContext(WithDeadline(t), http.MethodGet,
		"http://"+s.HTTP+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// Value returns the value of a partition's gauge or counter. Parameter name is the metric's name
// without the prefix heartwood_. pairs are further labels and their values, such as "result",
// "success". Value returns false if there is no such series.
func (m Metrics) Value(name, topic string, partition int, pairs ...string) (float64, bool) {
	family := m["heartwood_"+name]
	labels := map[string]string{"topic": topic, "partition": strconv.Itoa(partition)}
	for i := 0; i+1 < len(pairs); i += 2 {
		labels[pairs[i]] = pairs[i+1]
	}
	for _, one := range family.GetMetric() {
		found := 0
		for _, label := range one.GetLabel() {
			if labels[label.GetName()] == label.GetValue() {
				found++
			}
		}
		if found == len(labels) {
			return one.GetGauge().GetValue() + one.GetCounter().GetValue(), true
		}
	}
	return 0, false
}
