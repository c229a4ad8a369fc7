package smoke

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

// get returns status and body of a path of the process's HTTP server.
func (s setup) get(t *testing.T, path string) (int, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(limited(t), http.MethodGet, "http://"+s.http+path, http.NoBody)
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

// getJSON decodes the answer of a path that must be there.
func (s setup) getJSON(t *testing.T, path string, into any) {
	t.Helper()
	status, body := s.get(t, path)
	if status != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, status, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatalf("GET %s: %v in %s", path, err, body)
	}
}

// metrics are the families of /metrics, by name.
type metrics map[string]*dto.MetricFamily

func (s setup) metrics(t *testing.T) metrics {
	t.Helper()
	request, err := http.NewRequestWithContext(limited(t), http.MethodGet, "http://"+s.http+"/metrics", http.NoBody)
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

// value returns a gauge or counter of one partition of a topic; more label pairs ("result", "success") narrow it down.
func (m metrics) value(name, topic string, partition int, pairs ...string) (float64, bool) {
	family := m["heartwood_"+name]
	wanted := map[string]string{"topic": topic, "partition": strconv.Itoa(partition)}
	for i := 0; i+1 < len(pairs); i += 2 {
		wanted[pairs[i]] = pairs[i+1]
	}
	for _, one := range family.GetMetric() {
		found := 0
		for _, label := range one.GetLabel() {
			if wanted[label.GetName()] == label.GetValue() {
				found++
			}
		}
		if found == len(wanted) {
			return one.GetGauge().GetValue() + one.GetCounter().GetValue(), true
		}
	}
	return 0, false
}
