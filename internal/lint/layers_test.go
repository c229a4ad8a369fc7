package lint

import (
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "heartwood.dev/heartwood/"

// layers says what each package of this module may import of it, downward only. A package that is
// missing here fails the test: put it where it belongs. "internal/metadata/*" stands for every
// package below.
var layers = map[string][]string{
	"api/v1alpha1": {},
	"api/report":   {},
	"api/summary":  {"api/v1alpha1", "api/report"},
	"config/crd":   {},

	"internal/version":     {},
	"internal/vfs":         {},
	"internal/timer":       {},
	"internal/outage":      {},
	"internal/compress":    {},
	"internal/placement":   {},
	"internal/restmapper":  {},
	"internal/lease":       {"api/v1alpha1"},
	"internal/record":      {"internal/compress"},
	"internal/topicconfig": {"internal/compress", "internal/record"},

	"internal/logstore/segment": {"internal/vfs", "internal/record"},
	"internal/logstore/keys": {"internal/logstore/segment", "internal/vfs", "internal/record",
		"internal/compress"},
	"internal/logstore/clean": {"internal/logstore/keys", "internal/logstore/segment",
		"internal/record", "internal/compress", "internal/vfs"},
	"internal/logstore/leaderepoch": {},
	"internal/logstore/producer":    {"internal/logstore/segment", "internal/record"},
	"internal/logstore/checkpoint": {"internal/logstore/clean", "internal/logstore/leaderepoch",
		"internal/logstore/segment"},
	"internal/logstore/inspect": {"internal/logstore/segment", "internal/logstore/keys",
		"internal/record", "internal/compress", "internal/vfs"},
	"internal/logstore/cleaner": {"api/report", "internal/logstore", "internal/logstore/clean",
		"internal/logstore/keys", "internal/logstore/segment", "internal/topicconfig"},
	"internal/logstore": {
		"internal/logstore/inspect", // in tests: what a store wrote is verified
		"internal/logstore/segment", "internal/logstore/keys",
		"internal/logstore/clean", "internal/logstore/checkpoint", "internal/logstore/leaderepoch",
		"internal/logstore/producer", "internal/topicconfig",
		"internal/record", "internal/compress", "internal/outage", "internal/vfs",
	},

	"internal/metadata": {"api/v1alpha1", "internal/placement", "internal/topicconfig",
		"internal/compress", "internal/record"},
	"internal/metadata/local": {"api/v1alpha1", "internal/metadata", "internal/placement",
		"internal/topicconfig", "internal/vfs"},
	"internal/metadata/kube": {"api/v1alpha1", "internal/lease", "internal/metadata",
		"internal/outage", "internal/placement", "internal/restmapper", "internal/topicconfig"},
	"internal/metadata/remote": {
		"internal/metadata",
		"internal/topicconfig",
		"internal/metadata/local", "internal/vfs", // its test serves a real store
	},
	"internal/manifest": {"api/v1alpha1", "config/crd"},

	"internal/replica/isr":     {"internal/metadata"},
	"internal/replica/session": {"internal/metadata"},
	"internal/replica": {"internal/replica/isr", "internal/replica/session", "internal/logstore",
		"internal/logstore/cleaner", // in tests: replicas whose logs are compacted
		"internal/metadata", "internal/outage", "internal/timer", "internal/record",
		"internal/topicconfig"},
	"internal/coordinator/assignor": {},
	"internal/coordinator/consumer": {"internal/coordinator/assignor"},
	"internal/coordinator/state":    {},
	"internal/coordinator/group":    {"internal/coordinator/consumer", "internal/coordinator/state"},
	"internal/coordinator/runtime": {"internal/coordinator/state", "internal/replica",
		"internal/logstore", "internal/metadata", "internal/timer", "internal/record",
		"internal/compress"},
	"internal/coordinator": {
		"internal/coordinator/group", "internal/coordinator/consumer", "internal/coordinator/state",
		"internal/coordinator/runtime", "internal/replica", "internal/metadata",
	},
	"internal/wire": {"internal/outage", "internal/vfs"},
	"internal/handler": {
		"internal/coordinator", "internal/coordinator/group", "internal/coordinator/consumer",
		"internal/coordinator/assignor",
		"internal/wire", "internal/replica", "internal/replica/session", "internal/logstore",
		"internal/metadata", "internal/topicconfig", "internal/record",
		"internal/compress",
	},
	"internal/broker": {
		"api/v1alpha1", "api/report", "api/summary", "internal/wire", "internal/handler",
		"internal/coordinator",
		"internal/replica", "internal/replica/session", "internal/logstore",
		"internal/logstore/cleaner", "internal/metadata",
		"internal/outage", "internal/timer", "internal/version", "internal/vfs",
		"internal/metadata/local", // its test runs whole brokers
	},
	"internal/dev": {
		"api/v1alpha1", "api/report", "api/summary", "internal/broker", "internal/manifest",
		"internal/metadata", "internal/metadata/local",
		"internal/metadata/remote", "internal/vfs",
	},

	"internal/remote": {"api/v1alpha1", "api/report", "api/summary"},

	"internal/operator/render":  {"api/v1alpha1"},
	"internal/operator/rollout": {},
	"controllers/index":         {"api/v1alpha1"},
	"controllers/watch":         {"api/v1alpha1"},
	"controllers/conditions":    {"api/v1alpha1"},
	"controllers/keyed":         {},
	"controllers/opmetrics":     {},
	"controllers/laststatus":    {"api/v1alpha1", "internal/metadata", "internal/placement"},
	"controllers/brokerstate": {"api/v1alpha1", "internal/lease", "internal/placement",
		"internal/operator/render"}, // render: its test compares names
	// The operator and the brokers resolve a topic's settings by internal/metadata, so that both
	// apply the same defaults.
	"controllers/reports": {"api/report", "api/v1alpha1", "controllers/watch", "internal/metadata",
		"internal/operator/render"},
	"controllers/logcluster": {
		"api/v1alpha1", "controllers/brokerstate", "controllers/conditions", "controllers/index",
		"controllers/keyed", "controllers/opmetrics", "controllers/watch", "internal/metadata",
		"internal/operator/render", "internal/operator/rollout", "internal/placement",
	},
	"controllers/topic": {
		"api/summary", "api/v1alpha1", "controllers/conditions", "controllers/index",
		"controllers/keyed", "controllers/laststatus", "controllers/opmetrics",
		"controllers/reports", "controllers/watch", "internal/metadata", "internal/placement",
	},
	"controllers/broker": {
		"api/v1alpha1", "controllers/brokerstate", "controllers/index", "controllers/keyed",
		"controllers/watch", "internal/placement",
	},
	"controllers/partition": {
		"api/v1alpha1", "controllers/brokerstate", "controllers/conditions", "controllers/index",
		"controllers/laststatus", "controllers/watch", "internal/metadata", "internal/placement",
	},
	"controllers": {
		"api/v1alpha1", "controllers/broker", "controllers/brokerstate", "controllers/conditions",
		"controllers/index", "controllers/logcluster", "controllers/opmetrics",
		"controllers/partition", "controllers/reports", "controllers/topic",
		"internal/operator/render", "internal/restmapper",
		"api/report", "internal/placement", // in its tests
	},
	"internal/plan":            {},
	"internal/bench/purgatory": {"internal/timer"},
	// its test compresses what it makes
	"internal/bench/tickets": {"internal/compress"},
	// its test measures a real cluster
	"internal/bench/client": {"internal/bench/tickets", "internal/dev"},
	"internal/bench/logappend": {
		"internal/bench/tickets",
		"internal/logstore", "internal/topicconfig", "internal/record", "internal/compress",
		"internal/vfs",
	},
	"internal/lint": {},
}

// kubernetes says which packages may import Kubernetes clients; kafka, which may import the Kafka
// protocol's types.
var (
	kubernetes = []string{
		"api", "controllers", "internal/operator", "internal/metadata/kube", "cmd", "test", "hack",
		// manifest checks manifests with the API server's own validation code, without a client.
		"internal/manifest",
	}
	kafka = []string{"internal/wire", "internal/handler", "internal/coordinator", "internal/broker",
		"internal/bench/client", "test", "hack"}
)

func TestImportsGoDownward(t *testing.T) {
	for _, file := range sources(t) {
		pkg := path.Dir(file)
		if top := strings.SplitN(pkg, "/", 2)[0]; top == "cmd" || top == "test" || top == "hack" {
			continue // commands and tests of whole programs may use anything
		}
		allowed, known := layers[pkg]
		if !known && pkg != "internal" {
			t.Errorf("%s: package %s is not in the table of layers_test.go", file, pkg)
			continue
		}
		for _, imported := range imports(t, file) {
			rel, ours := strings.CutPrefix(imported, module)
			if !ours || rel == pkg {
				continue
			}
			if isTest(file) && (strings.HasPrefix(rel, "test/kit") || reaches(pkg, rel)) {
				continue
			}
			if !slices.Contains(allowed, rel) {
				t.Errorf("%s imports %s: not downward; see layers in layers_test.go", file, rel)
			}
		}
	}
}

// reaches tells whether pkg stands on imported, directly or through others. A test may use what is
// anywhere below its package: a disk in memory, a batch built by hand.
func reaches(pkg, imported string) bool {
	return slices.ContainsFunc(layers[pkg],
		func(below string) bool { return below == imported || reaches(below, imported) })
}

func TestTheTwoHalvesStayApart(t *testing.T) {
	for _, file := range sources(t) {
		for _, imported := range imports(t, file) {
			switch {
			case strings.HasPrefix(imported, "k8s.io/client-go"),
				strings.HasPrefix(imported, "sigs.k8s.io/controller-runtime"),
				strings.HasPrefix(imported, "k8s.io/apiextensions-apiserver"):
				if !below(file, kubernetes) {
					t.Errorf("%s imports %s: Kubernetes stays out of the log", file, imported)
				}
			case strings.HasPrefix(imported, "github.com/twmb/franz-go"):
				if !below(file, kafka) && !isTest(file) {
					t.Errorf("%s imports %s: the protocol stays at the edge", file, imported)
				}
			}
		}
	}
}

func imports(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), root+file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, imported)
	}
	return all
}

func below(file string, folders []string) bool {
	return slices.ContainsFunc(folders,
		func(folder string) bool { return strings.HasPrefix(file, folder+"/") })
}

func isTest(file string) bool { return strings.HasSuffix(file, "_test.go") }
