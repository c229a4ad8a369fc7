package lint

// layers lists, for each package, the packages of this module that its code (without tests) may
// import. A package may import only packages that are listed above it. Every package must have an
// entry.
var layers = map[string][]string{
	"api/v1alpha1": {},
	"api/report":   {},
	"api/summary":  {"api/v1alpha1", "api/report"},
	"config/crd":   {},

	"internal/version":   {},
	"internal/vfs":       {},
	"internal/timer":     {},
	"internal/outage":    {},
	"internal/compress":  {},
	"internal/pki":       {},
	"internal/placement": {},
	"internal/pressure":  {},
	"internal/scrape":    {},

	"internal/reachability": {},

	"internal/placement/balance": {},

	"internal/restmapper":  {},
	"internal/authz":       {},
	"internal/quota":       {},
	"internal/certname":    {},
	"internal/sasl":        {},
	"internal/tokens":      {"internal/sasl"},
	"internal/access":      {"api/report", "internal/outage", "internal/sasl"},
	"internal/access/kube": {"api/v1alpha1", "internal/access", "internal/tokens"},
	"internal/credentials": {"api/v1alpha1", "internal/sasl"},
	"internal/lease":       {"api/v1alpha1"},
	"internal/record":      {"internal/compress"},
	"internal/topicconfig": {"internal/compress", "internal/record"},
	// LogCluster fields under the Kafka names of broker settings
	"internal/brokerconfig": {"api/v1alpha1", "internal/topicconfig"},

	"internal/logstore/segment": {"internal/vfs", "internal/record"},
	"internal/logstore/keys": {"internal/logstore/segment", "internal/vfs", "internal/record",
		"internal/compress"},
	"internal/logstore/clean": {"internal/logstore/keys", "internal/logstore/segment",
		"internal/record", "internal/compress", "internal/vfs"},
	"internal/logstore/leaderepoch": {},
	"internal/logstore/producer":    {"internal/logstore/segment", "internal/record"},
	"internal/logstore/checkpoint": {"internal/logstore/clean", "internal/logstore/leaderepoch",
		"internal/logstore/segment"},
	"internal/logstore/inspect": {"internal/logstore/checkpoint", "internal/logstore/clean",
		"internal/logstore/segment", "internal/logstore/keys", "internal/record",
		"internal/vfs"},
	"internal/logstore/cleaner/passlog": {"api/report", "internal/logstore/clean",
		"internal/outage", "internal/vfs"},
	"internal/logstore/cleaner": {"api/report", "internal/logstore", "internal/logstore/clean",
		"internal/logstore/cleaner/passlog", "internal/logstore/keys",
		"internal/logstore/segment", "internal/scrape", "internal/topicconfig"},
	"internal/logstore": {
		"internal/logstore/segment", "internal/logstore/keys",
		"internal/logstore/clean", "internal/logstore/checkpoint", "internal/logstore/leaderepoch",
		"internal/logstore/producer", "internal/topicconfig",
		"internal/record", "internal/compress", "internal/outage", "internal/scrape",
		"internal/version", "internal/vfs",
	},

	"internal/metadata": {"api/v1alpha1", "internal/authz", "internal/brokerconfig",
		"internal/placement", "internal/pressure", "internal/quota", "internal/sasl",
		"internal/topicconfig", "internal/compress", "internal/record"},
	"internal/partitionset":        {"api/v1alpha1", "internal/metadata", "internal/placement"},
	"internal/partitionset/commit": {"api/v1alpha1", "internal/partitionset"},
	"internal/metadata/local": {"api/v1alpha1", "internal/metadata", "internal/partitionset",
		"internal/placement", "internal/version", "internal/vfs"},
	"internal/metadata/kube": {"api/v1alpha1", "internal/lease", "internal/metadata",
		"internal/version",
		"internal/outage", "internal/partitionset", "internal/partitionset/commit",
		"internal/placement", "internal/restmapper"},
	"internal/metadata/remote": {"api/v1alpha1", "internal/metadata"},
	"internal/manifest":        {"api/v1alpha1", "config/crd"},

	"internal/replica/isr":     {"internal/metadata"},
	"internal/replica/session": {"internal/metadata"},
	"internal/replica": {"internal/replica/isr", "internal/replica/session", "internal/logstore",
		"internal/metadata", "internal/outage", "internal/timer", "internal/record"},
	"internal/coordinator/assignor": {},
	"internal/coordinator/consumer": {"internal/coordinator/assignor"},
	"internal/coordinator/lag":      {},
	"internal/coordinator/state":    {},
	"internal/coordinator/group": {"internal/coordinator/consumer",
		"internal/coordinator/state"},
	"internal/coordinator/transaction": {"internal/coordinator/state"},
	"internal/coordinator/runtime": {"internal/coordinator/state", "internal/replica",
		"internal/logstore", "internal/metadata", "internal/timer", "internal/record",
		"internal/compress"},
	"internal/coordinator": {
		"internal/coordinator/group", "internal/coordinator/consumer", "internal/coordinator/lag",
		"internal/coordinator/state", "internal/coordinator/runtime", "internal/coordinator/transaction", "internal/replica",
		"internal/logstore", "internal/metadata",
	},
	"internal/wire":   {"internal/authz", "internal/outage", "internal/sasl", "internal/vfs"},
	"internal/events": {"api/report"},
	"internal/handler": {
		"internal/coordinator", "internal/coordinator/group", "internal/coordinator/consumer",
		"internal/coordinator/assignor", "internal/coordinator/transaction",
		"api/v1alpha1", "internal/authz", "internal/quota", "internal/sasl", "internal/wire",
		"internal/replica",
		"internal/replica/session", "internal/logstore",
		"internal/brokerconfig", "internal/metadata", "internal/topicconfig", "internal/record",
		"internal/compress", "internal/outage", "internal/pressure",
	},
	"internal/broker": {
		"api/v1alpha1", "api/report", "api/summary", "internal/access", "internal/authz",
		"internal/events", "internal/certname", "internal/sasl", "internal/tokens", "internal/wire", "internal/handler",
		"internal/coordinator", "internal/coordinator/lag", "internal/coordinator/transaction",
		"internal/replica", "internal/replica/session", "internal/logstore",
		"internal/logstore/cleaner", "internal/logstore/cleaner/passlog", "internal/metadata",
		"internal/outage", "internal/version", "internal/vfs", "internal/placement",
		"internal/pressure", "internal/reachability", "internal/scrape",
		"internal/loglevel",
	},
	"internal/loglevel":           {},
	"internal/remote":             {"api/v1alpha1", "api/report", "api/summary", "internal/pki"},
	"internal/console/cleanermap": {"api/report"},
	"internal/console/kafka":      {"internal/compress"},
	"internal/console": {"api/report", "api/summary", "internal/console/cleanermap",
		"internal/pressure",
		"internal/console/kafka", "internal/remote"},
	"internal/console/connect": {"api/v1alpha1", "internal/credentials", "internal/tokens"},
	"internal/console/kube": {
		"api/v1alpha1", "internal/console", "internal/console/connect", "internal/console/kafka",
		"internal/credentials", "internal/operator/render", "internal/remote",
		"internal/restmapper",
	},
	"internal/dev": {
		"api/v1alpha1", "api/report", "internal/broker", "internal/console", "internal/loglevel",
		"internal/console/kafka", "internal/credentials", "internal/manifest", "internal/remote", "internal/metadata", "internal/metadata/local",
		"internal/metadata/remote", "internal/pki", "internal/vfs",
	},

	"internal/operator/render":    {"api/v1alpha1"},
	"internal/operator/rollout":   {"internal/placement"},
	"internal/operator/skew":      nil,
	"internal/operator/claims":    {"api/v1alpha1"},
	"internal/operator/volumes":   {"api/v1alpha1", "internal/placement"},
	"internal/operator/rebalance": {"api/v1alpha1", "internal/placement/balance"},
	"internal/cli/forward":        {},
	"internal/cli/kafka":          {},
	"internal/cli/health":         {"api/v1alpha1"},
	"internal/cli": {
		"api/report", "api/v1alpha1", "internal/cli/forward", "internal/cli/health",
		"internal/cli/kafka", "internal/console", "internal/console/connect",
		"internal/console/kafka", "internal/console/kube", "internal/credentials",
		"internal/metadata",
		"internal/operator/rebalance", "internal/operator/render", "internal/partitionset",
		"internal/placement/balance", "internal/remote",
		"internal/restmapper", "internal/topicconfig", "internal/version",
	},
	"controllers/index":      {"api/v1alpha1", "internal/metadata"},
	"controllers/watch":      {"api/v1alpha1"},
	"controllers/conditions": {"api/v1alpha1"},
	"controllers/keyed":      {},
	"controllers/opmetrics":  {"api/v1alpha1"},
	"controllers/laststatus": {"api/v1alpha1", "internal/partitionset", "internal/placement"},
	"controllers/refusal":    {"api/v1alpha1", "controllers/conditions", "internal/metadata"},
	"controllers/sets": {
		"api/v1alpha1", "controllers/index", "controllers/laststatus", "internal/metadata",
		"internal/partitionset", "internal/partitionset/commit",
	},
	"controllers/brokerstate": {"api/v1alpha1", "internal/lease", "internal/placement"},
	// The operator and the brokers resolve a topic's settings by internal/metadata, so that both
	// apply the same defaults.
	"controllers/owned":   {"controllers/conditions"},
	"controllers/secrets": {"api/v1alpha1", "controllers/owned"},
	"controllers/peertls": {"api/v1alpha1", "internal/pki"},
	"controllers/certificates": {"api/v1alpha1", "controllers/conditions", "controllers/index",
		"controllers/owned", "controllers/secrets", "controllers/watch", "internal/credentials",
		"internal/metadata", "internal/operator/render", "internal/pki"},
	"controllers/loguser": {"api/v1alpha1", "controllers/conditions", "controllers/index",
		"controllers/owned", "controllers/secrets", "controllers/watch", "internal/credentials",
		"internal/operator/render", "internal/pki"},
	"controllers/reports": {"api/report", "api/v1alpha1", "controllers/conditions",
		"controllers/peertls", "controllers/watch", "internal/metadata", "internal/operator/rebalance",
		"internal/operator/render"},
	"controllers/assignment": {
		"api/report", "api/v1alpha1", "controllers/conditions", "controllers/index",
		"controllers/keyed", "controllers/laststatus", "controllers/refusal", "controllers/reports",
		"controllers/sets", "controllers/watch", "internal/metadata",
		"internal/operator/rebalance", "internal/partitionset", "internal/partitionset/commit",
		"internal/placement",
	},
	"controllers/logcluster": {
		"api/report", "api/summary", "api/v1alpha1", "controllers/brokerstate", "controllers/conditions", "controllers/index",
		"controllers/keyed", "controllers/opmetrics", "controllers/owned", "controllers/peertls",
		"controllers/reports", "controllers/sets", "controllers/watch", "internal/metadata",
		"internal/operator/claims", "internal/operator/rebalance", "internal/operator/render",
		"internal/operator/rollout", "internal/operator/skew", "internal/partitionset",
		"internal/partitionset/commit", "internal/placement", "internal/version",
	},
	"controllers/rebalance": {
		"api/report", "api/v1alpha1", "controllers/brokerstate", "controllers/conditions",
		"controllers/index", "controllers/keyed", "controllers/peertls", "controllers/reports",
		"controllers/sets", "controllers/watch", "internal/metadata",
		"internal/operator/rebalance", "internal/operator/render", "internal/partitionset",
		"internal/partitionset/commit", "internal/placement",
	},
	"controllers/volumes": {
		"api/v1alpha1", "controllers/brokerstate", "controllers/conditions", "controllers/index",
		"controllers/keyed", "controllers/sets", "controllers/watch", "internal/operator/render",
		"internal/operator/volumes", "internal/partitionset", "internal/placement",
	},
	"controllers/topic": {
		"api/summary", "api/v1alpha1", "controllers/brokerstate", "controllers/conditions",
		"controllers/index", "controllers/keyed", "controllers/opmetrics", "controllers/refusal",
		"controllers/reports", "controllers/sets", "controllers/watch", "internal/metadata",
		"internal/operator/render", "internal/partitionset", "internal/placement",
	},
	"controllers/broker": {
		"api/v1alpha1", "controllers/brokerstate", "controllers/conditions", "controllers/keyed",
		"controllers/peertls", "controllers/watch", "internal/lease", "internal/operator/render",
		"internal/placement", "internal/reachability",
	},
	"controllers/election": {
		"api/v1alpha1", "controllers/brokerstate", "controllers/conditions", "controllers/keyed",
		"controllers/sets", "controllers/watch", "internal/metadata", "internal/partitionset",
		"internal/partitionset/commit", "internal/placement",
	},
	"controllers": {
		"api/v1alpha1", "controllers/assignment", "controllers/broker", "controllers/brokerstate",
		"controllers/certificates", "controllers/conditions", "controllers/election",
		"controllers/index", "controllers/logcluster", "controllers/loguser",
		"controllers/opmetrics", "controllers/peertls", "controllers/rebalance",
		"controllers/reports", "controllers/secrets",
		"controllers/sets", "controllers/topic", "controllers/volumes", "internal/operator/render",
		"internal/restmapper",
	},
	"internal/plan":            {},
	"internal/plot":            {},
	"internal/bench/purgatory": {"internal/timer"},
	"internal/bench/tickets":   {},
	"internal/bench/client":    {"internal/bench/tickets"},
	"internal/bench/logappend": {
		"internal/bench/tickets",
		"internal/logstore", "internal/topicconfig", "internal/record", "internal/compress",
		"internal/vfs",
	},
	"internal/lint": {},
}

// testLayers lists, for some packages, the packages that their tests may import in addition. Every
// test may also import test/kit, and the direct and indirect imports of its package in layers.
var testLayers = map[string][]string{
	"internal/access/kube": {"internal/sasl"}, // verifies real tokens
	// compares the names of pods and Leases
	"controllers/brokerstate": {"internal/operator/render"},
	"internal/metadata/kube":  {"internal/credentials"},
	"internal/bench/client":   {"internal/dev"}, // runs a cluster to measure
	"internal/console":        {"internal/dev"}, // shows a cluster
	"internal/console/kafka":  {"internal/dev"}, // reads from a cluster
	// connects to a secured cluster
	"internal/console/connect": {"internal/console/kafka", "internal/dev"},
	// runs a cluster behind the forwarded ports
	"internal/cli":       {"internal/dev"},
	"internal/cli/kafka": {"internal/dev"},
	// measures the compression ratio
	"internal/bench/tickets": {"internal/compress"},
	"internal/broker":        {"internal/metadata/local"}, // runs brokers with a metadata store
	// verifies what a store has written, and compares the described defaults
	// balances what placement has assigned
	"internal/placement/balance": {"internal/placement"},
	"internal/logstore":          {"internal/brokerconfig", "internal/logstore/inspect"},
	// serves this store to a client
	"internal/metadata/remote": {"internal/metadata/local", "internal/vfs"},
	"internal/replica":         {"internal/logstore/cleaner"}, // compacts replicas
}

// purePackages are the packages that the documents describe as pure: their code reads no clock,
// acquires no lock, starts no goroutine and does no I/O. The value lists otherwise forbidden
// imports that the package may use.
var purePackages = map[string][]string{
	"api/summary":                      nil,
	"internal/certname":                nil,
	"internal/cli/health":              nil,
	"internal/authz":                   {"net/netip"}, // a type of values
	"internal/brokerconfig":            {"sync"},      // a sync.OnceValue builds the table
	"internal/console/cleanermap":      nil,
	"internal/coordinator/assignor":    nil,
	"internal/coordinator/consumer":    nil,
	"internal/coordinator/group":       nil,
	"internal/coordinator/lag":         nil,
	"internal/coordinator/state":       nil,
	"internal/coordinator/transaction": nil,
	"internal/lease":                   nil,
	"internal/logstore/checkpoint":     nil,
	// sync/atomic: hash slices share bitmaps and counters; vfs: the caller passes open files
	"internal/logstore/clean":       {"sync/atomic", module + "internal/vfs"},
	"internal/logstore/leaderepoch": nil,
	"internal/logstore/producer":    nil,
	"internal/operator/render":      {"net"}, // net.JoinHostPort
	"internal/operator/claims":      nil,
	"internal/operator/rebalance":   nil,
	"internal/operator/rollout":     nil,
	"internal/operator/skew":        nil,
	"internal/operator/volumes":     nil,
	"internal/outage":               nil,
	// net/netip and net/url: types of the names in certificates
	"internal/pki":               {"net/netip", "net/url"},
	"internal/placement":         nil,
	"internal/placement/balance": nil,
	"internal/plan":              nil,
	"internal/plot":              nil,
	"internal/pressure":          nil,
	"internal/scrape":            {"sync/atomic"},
	"internal/quota":             nil,
	"internal/reachability":      nil,
	"internal/record":            {"sync"}, // a sync.Pool of buffers
	"internal/replica/isr":       nil,
	"internal/sasl":              nil,
	"internal/replica/session":   nil,
	"internal/partitionset":      nil,
}
