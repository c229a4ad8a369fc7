package pages

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Untested contains the commands that test/e2e does not run, with the reasons. A text that ends in
// "*" matches all commands with this beginning; any other text matches a whole command.
var Untested = map[string]string{
	"make *":                                            "builds what the test installs",
	"helm install heartwood *":                          "the test installs the chart with its own image",
	"kubectl krew *":                                    "krew is not installed in the lab; a release is needed",
	"kubectl port-forward *":                            "profiles need spec.pprof, and are read interactively",
	"go tool pprof *":                                   "reads a profile interactively",
	"curl -s 'http://127.0.0.1:9644*":                   "needs the forwarded port of the line above it",
	"kubectl -n NAMESPACE logs --previous *":            "needs a container that has restarted",
	"kubectl -n OPERATOR-NAMESPACE logs --previous POD": "needs a container that has restarted",
	`kubectl patch logcluster demo --type merge -p '{"spec": {"storage"*`: "the steps about volumes " +
		"of test/e2e do it, with classes that the lab has",
	"kubectl wait --for=condition=StorageResized *": "as above",
	"kubectl patch storageclass CLASS *":            "changes a class that others use",
	"kubectl annotate pvc CLAIM heartwood.dev/requested-size-": "needs a class that can expand " +
		"volumes",
	"kubectl -n NAMESPACE delete pvc *":   lostVolume,
	"kubectl -n NAMESPACE delete pod POD": lostVolume,
	"kubectl -n NAMESPACE annotate logcluster CLUSTER heartwood.dev/replace-volume=CLAIM-UID " +
		"--overwrite": lostVolume,
	"kubectl -n NAMESPACE describe certificate *": "cert-manager is not in the lab",
	"kubectl -n NAMESPACE exec POD -- heartwood transactions abort *": "needs an open transaction; " +
		"internal/broker aborts one by the same request",
	"kubectl heartwood accept-loss *": "needs a partition whose records are lost; internal/cli runs " +
		"it against a real API server, and controllers elect the leader",
	"kubectl heartwood drain *": "three brokers with three replicas refuse it; the field that it " +
		"sets is patched with five brokers",
	"kubectl heartwood retained remove tickets":       "the same page removes the records of a topic",
	"kubectl heartwood user config app":               "LogCluster demo has no users; internal/cli runs it",
	"kubectl heartwood -n NAMESPACE user config USER": "LogCluster demo has no users; internal/cli runs it",
	"heartwood dev *":                                 "needs no Kubernetes; test/smoke runs it",
	"minisign *":                                      "needs the key of a release",
	"sha256sum --ignore-missing -c SHA256SUMS":        releaseFiles,
	"mkdir layout *":                                  releaseFiles,
	"kubectl -n argocd patch *":                       "Argo CD is not in the lab; test/chart runs the health check",
	"kubectl apply -k config":                         "writes over the objects of the chart that the test has installed",
	"skopeo copy *":                                   "needs a registry",
	"kubectl apply --server-side -f install.yaml":     releaseFiles,
	"kubectl apply -f policies.yaml":                  releaseFiles,
}

// releaseFiles is the reason for commands that need a release's files.
const releaseFiles = "needs the files of a release; make release checks them"

// lostVolume is the reason for commands that replace a volume.
const lostVolume = "the step about a lost volume of test/e2e does it"

// reference contains the pages in docs/operate whose commands test/e2e does not run: they describe
// clusters, users and other operators that the lab does not have.
var reference = []string{"docs/operate/dashboards.md", "docs/operate/metrics.md",
	"docs/operate/moving-from-strimzi.md",
	"docs/operate/scale.md", "docs/operate/security.md", "docs/operate/sizing.md"}

// All returns the commands of the runbooks and of the pages in docs/operate. The commands in
// sentences and tables come last. Each of them is returned once, and only if no code block contains
// it.
func All(root fs.FS) (commands []Command, err error) {
	var files []string
	for _, pattern := range []string{"docs/operate/runbooks/*.md", "docs/operate/*.md"} {
		found, err := fs.Glob(root, pattern)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	var inline []Command
	for _, file := range files {
		if slices.Contains(reference, file) {
			continue
		}
		content, err := fs.ReadFile(root, file)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		all, err := Extract(file, string(content))
		if err != nil {
			return nil, err
		}
		for _, c := range all {
			switch {
			case strings.HasPrefix(c.Text, "heartwood ") && !strings.HasPrefix(c.Text, "heartwood dev "):
				return nil, fmt.Errorf("%s: the brokers have the program: use kubectl exec", c)
			case c.Inline:
				inline = append(inline, c)
			default:
				commands = append(commands, c)
			}
		}
	}
	seen := map[string]bool{}
	for _, c := range commands {
		seen[c.bare()] = true
	}
	for _, c := range inline {
		if !seen[c.bare()] {
			commands = append(commands, c)
		}
		seen[c.bare()] = true
	}
	return commands, nil
}

// bare returns a command's text without its comment.
func (c Command) bare() string {
	text, _, _ := strings.Cut(c.Text, " #")
	return strings.TrimSpace(text)
}

// Reason returns the reason why test/e2e does not run a command, and the matching text in Untested.
func (c Command) Reason() (text, reason string, untested bool) {
	for text, reason := range Untested {
		if begin, isBegin := strings.CutSuffix(text, "*"); c.bare() == text ||
			isBegin && strings.HasPrefix(c.Text, begin) {
			return text, reason, true
		}
	}
	return "", "", false
}
