package remote

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/summary"
	"heartwood.dev/heartwood/api/v1alpha1"
)

func TestPrintTopics(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	found := func(ago time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-ago)} }
	var out strings.Builder
	err := PrintTopics(&out, []summary.Topic{
		{Topic: "events", Partitions: 1, SizeBytes: 999},
		{
			Topic: "tickets", Partitions: 12, SizeBytes: 5 << 30, Compacted: true,
			Records: new(int64(123_456)),
			Compaction: &v1alpha1.CompactionStatus{
				DirtyPercent: new(int32(37)), Reclaimable: resource.NewQuantity(1<<30, resource.BinarySI),
				Phase: "Rewriting", ProgressPercent: new(int32(43)),
				EstimatedCompletionTime: found(-11 * time.Minute), LastCleanTime: found(50 * time.Hour),
			},
			Compacting: &summary.Compacting{Reason: "Cleaning",
				Message: "a pass runs (1 of 12 partitions; 11 UpToDate)"},
		},
		{Topic: "new", Partitions: 1, Compacted: true, Records: new(int64(12)), RecordsExact: true,
			Compacting: &summary.Compacting{Reason: "Unknown",
				Message: "no leader of this topic reported"}},
	}, now)
	if err != nil {
		t.Fatal(err)
	}
	want := `
TOPIC     PARTITIONS   SIZE    RECORDS   DIRTY   RECLAIMABLE   CLEANER                   CLEANED   WHY
events    1            999 B   -         -       -             -                         -         not compacted
tickets   12           5 GiB   ~123456   37%     1 GiB         Rewriting 43%, 11m left   2d ago    Cleaning: a pass runs (1 of 12 partitions; 11 UpToDate)
new       1            0 B     12        -       -             -                         -         Unknown: no leader of this topic reported
`
	if got := "\n" + out.String(); got != want {
		t.Errorf("got:%swant:%s", got, want)
	}
}

func TestSizesAndAges(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "0.977 KiB",
		1 << 20: "1 MiB", 1023 << 20: "0.999 GiB", 1 << 62: "4.1e+03 PiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{-time.Second: "0s", 119 * time.Second: "119s",
		2 * time.Minute: "2m", 2 * time.Hour: "2h", 49 * time.Hour: "2d"} {
		if got := age(d); got != want {
			t.Errorf("%s is %s, want %s", d, got, want)
		}
	}
}

func TestAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"127.0.0.1:9644": "127.0.0.1:9644", "http://demo:80": "demo:80",
		"http://demo:80/": "demo:80", "https://demo:80/": "demo:80", "[::1]:9644": "[::1]:9644",
		"": "", "demo": "", ":9644": "", "demo:0": "", "demo:70000": "", "ftp://demo:1": "",
	} {
		if got, err := ParseAddress(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

// TestAddressOfAnotherServerIsReported checks the error for an address that does not belong to a
// broker's HTTP port.
func TestAddressOfAnotherServerIsReported(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("topic") {
			http.Error(w, "<html>", http.StatusTeapot)
			return
		}
		_, _ = w.Write([]byte("<html>"))
	}))
	defer server.Close()
	address := server.Listener.Addr().String()
	for _, topics := range [][]string{nil, {"t"}} {
		if _, err := (&Client{}).Topics(t.Context(), []string{address}, topics); err == nil ||
			!strings.Contains(err.Error(), address+" is not the HTTP port of a broker") {
			t.Errorf("got error %v, want one that the address is not that of a broker", err)
		}
	}
	server.Close()
	if _, err := (&Client{}).Topics(t.Context(), []string{address}, nil); err == nil ||
		strings.Count(err.Error(), address) > 2 ||
		!strings.Contains(err.Error(), "connect to broker at "+address) {
		t.Errorf("got error %v, want one about the connection that names the address", err)
	}
}

func TestUnknownNamesAreReported(t *testing.T) {
	if err := Unknown("topic", []string{"a"}, []string{"a", "b"}); err != nil {
		t.Error(err)
	}
	err := Unknown("topic", []string{"a", "c", "d"}, []string{"a"})
	if err == nil || err.Error() != "unknown topic \"c\"\nunknown topic \"d\"" {
		t.Errorf("got error %v", err)
	}
}
