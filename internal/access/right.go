package access

import (
	"net/http"
	"strings"
)

// Right is a permission on a LogCluster, as RBAC grants it: a verb on logclusters/Subresource.
type Right struct {
	Verb        string
	Subresource string
}

func (r Right) String() string { return r.Verb + " logclusters/" + r.Subresource }

// The rights that requests can need.
var (
	ReadMetrics      = Right{"get", "metrics"}
	ReadReports      = Right{"get", "report"}
	ReadRecords      = Right{"get", "records"}
	CleanTopics      = Right{"create", "clean"}
	ScrubBrokers     = Right{"create", "scrub"}
	AbortTransaction = Right{"create", "abort"}
)

// open reports whether requests to the path need no right.
func open(path string) bool { return path == "/healthz" || path == "/readyz" }

// rightOf returns the right that a request needs. A key lookup returns records, so it needs
// ReadRecords. Reports, profiles, and paths that do not exist need ReadReports. Profiles need
// ReadReports with every method, because go tool pprof sends addresses with POST.
func rightOf(method, path string) Right {
	reads := method == http.MethodGet || method == http.MethodHead
	switch {
	case reads && path == "/metrics":
		return ReadMetrics
	case reads && strings.HasPrefix(path, "/api/") && strings.HasSuffix(path, "/keys"):
		return ReadRecords
	case reads, strings.HasPrefix(path, "/debug/pprof/"):
		return ReadReports
	case strings.HasSuffix(path, "/clean"):
		return CleanTopics
	case path == "/api/v1/scrub":
		return ScrubBrokers
	}
	return AbortTransaction
}
