//go:build e2e

package e2e

import (
	"archive/zip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// secretLine is the minimum length of a line in a Secret's value for which a report is searched.
const secretLine = 16

// reports writes a report and checks its content. One Secret of the LogCluster is applied with
// kubectl, which also stores the Secret's values in an annotation.
func (o *operatedCluster) reports(t *testing.T) {
	manifest := fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: operated-secret,
  labels: {%s: %s}},
	stringData: {token: not-to-be-seen-by-others}}`, v1alpha1.LabelCluster, operated)
	if _, err := command(t.Context(), manifest, "kubectl", "--namespace", o.namespace, "apply",
		"-f", "-"); err != nil {
		t.Fatal(err)
	}
	o.atEnd(t, "delete", "secret", "operated-secret")
	file := filepath.Join(t.TempDir(), "report.zip")
	var written struct {
		File    string
		Missing *int
	}
	o.json(t, 0, &written, "report", "--file", file)
	if written.File != file || written.Missing == nil || *written.Missing != 0 {
		t.Errorf("report: %+v", written)
	}
	archive := o.readReport(t, operated, 3, file)
	if !strings.Contains(archive["resources/secrets.yaml"], "token: <24 bytes>") {
		t.Errorf("the Secret is not in the report:\n%s", archive["resources/secrets.yaml"])
	}
	_, value, _ := strings.Cut(o.records[0], "\t")
	for name, content := range archive {
		if strings.Contains(content, value) {
			t.Errorf("%s contains a record", name)
		}
	}
	if strings.Contains(archive["resources/topics.yaml"], "ledger") {
		t.Error("the report contains a Topic of another LogCluster")
	}
	if out, code := o.run(t, "report", "--file", file); code != 1 ||
		!strings.Contains(out, "file exists") {
		t.Errorf("report into a file that exists: exit code %d: %s", code, out)
	}
}

// readReport reads a report. The report must be complete and must not contain any value of a
// Secret.
func (e *environment) readReport(t *testing.T, cluster string, brokers int,
	file string) map[string]string {
	t.Helper()
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the report: %v, %v", info, err)
	}
	archive := unzip(t, file)
	if missing := archive["errors.txt"]; missing != "\n" {
		t.Errorf("missing in the report: %s", missing)
	}
	for _, kind := range []string{"logclusters", "topics", "partitionsets", "statefulsets", "pods",
		"persistentvolumeclaims", "services", "leases", "events"} {
		if name := "resources/" + kind + ".yaml"; !strings.Contains(archive[name], cluster) {
			t.Errorf("%s does not contain %s:\n%s", name, cluster, archive[name])
		}
	}
	if !slices.ContainsFunc(slices.Collect(maps.Keys(archive)), func(name string) bool {
		return strings.HasPrefix(name, "operator/"+e.namespace+"/") &&
			strings.HasSuffix(name, ".log") && strings.Contains(archive[name], `"msg"`)
	}) {
		t.Error("the report has no log of the operator")
	}
	for id := range brokers {
		name := v1alpha1.BrokerLeaseName(cluster, int32(id))
		if !strings.Contains(archive["logs/"+name+".log"], `"msg"`) {
			t.Errorf("the report has no log of broker %d", id)
		}
		directory := fmt.Sprintf("brokers/%d/", id)
		for _, name := range []string{"partitions.json", "placement.json", "transactions.json"} {
			if content := archive[directory+name]; !json.Valid([]byte(content)) {
				t.Errorf("%s%s is not JSON: %s", directory, name, content)
			}
		}
		if !strings.Contains(archive[directory+"metrics.txt"], "\nheartwood_") {
			t.Errorf("the report has no metrics of broker %d", id)
		}
	}
	e.expectNoSecrets(t, archive)
	return archive
}

// unzip returns the content of each file in a zip file.
func unzip(t *testing.T, file string) map[string]string {
	t.Helper()
	archive, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	contents := map[string]string{}
	for _, entry := range archive.File {
		opened, err := entry.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(opened)
		if err != nil {
			t.Fatalf("%s: %v", entry.Name, err)
		}
		contents[entry.Name] = string(content)
	}
	return contents
}

// expectNoSecrets checks that no file contains a line from a value of the namespace's Secrets, or
// the line's base64 form. User names, addresses and certificates are not secret.
func (e *environment) expectNoSecrets(t *testing.T, archive map[string]string) {
	t.Helper()
	var secrets corev1.SecretList
	if err := e.List(t.Context(), &secrets); err != nil {
		t.Fatal(err)
	}
	searched := 0
	for i := range secrets.Items {
		for key, value := range secrets.Items[i].Data {
			if key == "username" || strings.HasSuffix(key, "bootstrap.servers") ||
				strings.HasSuffix(key, ".crt") {
				continue
			}
			words := append(strings.Split(string(value), "\n"),
				base64.StdEncoding.EncodeToString(value))
			for _, word := range words {
				if len(word) < secretLine {
					continue
				}
				searched++
				for name, content := range archive {
					if strings.Contains(content, word) {
						t.Errorf("%s contains a part of %s in Secret %s", name, key,
							secrets.Items[i].Name)
					}
				}
			}
		}
	}
	if searched == 0 {
		t.Error("the namespace has no Secret that the report could contain")
	}
	t.Logf("searched %d lines of %d Secrets in %d files", searched, len(secrets.Items),
		len(archive))
}
