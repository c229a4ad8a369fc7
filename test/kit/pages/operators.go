package pages

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Untested are the commands that test/e2e does not run, by their beginning, with the reasons.
var Untested = map[string]string{
	"make ":                                 "builds what the test installs",
	"helm install heartwood ":               "the test installs the chart with its own image",
	"kubectl krew ":                         "krew is not installed in the lab; a release is needed",
	"kubectl port-forward ":                 "profiles need spec.pprof, and are read interactively",
	"go tool pprof ":                        "reads a profile interactively",
	"curl -s 'http://127.0.0.1:9644":        "needs the forwarded port of the line above it",
	"kubectl -n NAMESPACE logs --previous ": "needs a container that has restarted",
	`kubectl patch logcluster demo --type merge -p '{"spec": {"storage"`: "the steps about volumes " +
		"of test/e2e do it, with classes that the lab has",
	"kubectl wait --for=condition=StorageResized ": "as above",
}

// All returns the commands of the runbooks, of the pages about operations, and those with kubectl
// or helm of the README.
func All(root fs.FS) (commands []Command, err error) {
	var files []string
	for _, pattern := range []string{"docs/runbooks/*.md", "docs/operations/*.md", "README.md"} {
		found, err := fs.Glob(root, pattern)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	for _, file := range files {
		content, err := fs.ReadFile(root, file)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		all, err := Extract(file, string(content))
		if err != nil {
			return nil, err
		}
		for _, c := range all {
			if path.Base(file) != "README.md" || strings.HasPrefix(c.Text, "kubectl ") ||
				strings.HasPrefix(c.Text, "helm ") {
				commands = append(commands, c)
			}
		}
	}
	return commands, nil
}

// Reason returns why test/e2e does not run a command, with the text of Untested that applies.
func (c Command) Reason() (text, reason string, untested bool) {
	for text, reason := range Untested {
		if strings.HasPrefix(c.Text, text) {
			return text, reason, true
		}
	}
	return "", "", false
}
