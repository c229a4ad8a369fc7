package main

import (
	"strings"
	"testing"
)

const crds = "../../config/crd"

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: operator}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: operator
        image: heartwood.dev/heartwood:dev
        livenessProbe: {httpGet: {port: 1}}
        readinessProbe: {httpGet: {port: 1}}
        resources: {requests: {cpu: 1m}}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities: {drop: [ALL]}
`

const monitor = `apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata: {name: brokers}
spec: {}
`

// role returns a Role of the console with one rule.
func role(rule string) string {
	return "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  name: console\n" +
		"  labels: {app.kubernetes.io/component: console}\nrules: [" + rule + "]\n"
}

func TestRenderedManifestsAreChecked(t *testing.T) {
	tests := map[string]struct {
		in    string
		kinds string
		want  string // part of the error; empty if no error is expected
	}{
		"valid": {deployment + "---\n# empty\n---\n" + monitor,
			"Deployment,PodMonitor", ""},
		"missing kind": {deployment, "Deployment,Service", "no Service"},
		"unexpected kind": {deployment + "---\n" + monitor, "Deployment",
			"unexpected PodMonitor"},
		"console may read named Secrets": {role(
			`{apiGroups: [""], resources: [secrets], resourceNames: [a], verbs: [get]}`), "Role", ""},
		"console may read all Secrets": {role(
			`{apiGroups: [""], resources: [secrets], verbs: [get]}`), "Role", "gives the console all"},
		"console may list Secrets": {role(
			`{apiGroups: [""], resources: [secrets], resourceNames: [a], verbs: [list]}`), "Role",
			"gives the console all"},
		"console may clean": {role(
			`{apiGroups: [heartwood.dev], resources: [topics], resourceNames: [a], verbs: [patch]}`),
			"Role", "lets the console patch"},
		"not YAML": {"a: [", "", "parse a manifest"},
		"unknown field": {strings.Replace(deployment, "image:", "imag:", 1),
			"Deployment", "imag"},
		"duplicate field": {deployment +
			"      enableServiceLinks: false\n      enableServiceLinks: true\n", "Deployment",
			"enableServiceLinks"},
		"may run as root": {strings.Replace(deployment, "runAsNonRoot: true",
			"runAsNonRoot: false", 1), "Deployment", "root"},
		"writable root file system": {strings.Replace(deployment, "readOnlyRootFilesystem: true",
			"readOnlyRootFilesystem: false", 1), "Deployment", "not restricted"},
		"capabilities": {strings.Replace(deployment, "drop: [ALL]", "drop: [CHOWN]", 1),
			"Deployment", "not restricted"},
		"no probe": {strings.Replace(deployment,
			"        livenessProbe: {httpGet: {port: 1}}\n", "", 1), "Deployment", "no probes"},
		"role without rules": {
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r}\n",
			"ClusterRole",
			"no rules",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := run(strings.NewReader(test.in), crds, strings.Split(test.kinds, ","))
			if test.want == "" && err != nil || test.want != "" &&
				(err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got error %v, want one that contains %q", err, test.want)
			}
		})
	}
}

func TestCRDMustBeKeptAndUnchanged(t *testing.T) {
	generated, err := readCRDs(crds)
	if err != nil {
		t.Fatal(err)
	}
	topics := generated["topics.heartwood.dev"]
	if topics == nil {
		t.Fatalf("got no topics CRD among %d CRDs", len(generated))
	}
	rendered := topics.DeepCopy()
	if err := sameCRD(rendered, topics); err == nil ||
		!strings.Contains(err.Error(), "deleted with the chart") {
		t.Errorf("CRD without resource policy keep: got error %v, want a rejection", err)
	}
	rendered.Annotations["helm.sh/resource-policy"] = "keep"
	if err := sameCRD(rendered, topics); err != nil {
		t.Errorf("unchanged CRD with resource policy keep: got error %v, want none", err)
	}
	spec := rendered.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	spec.XValidations = nil
	rendered.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
	if err := sameCRD(rendered, topics); err == nil {
		t.Error("CRD without its CEL rules: got no error")
	}
	if err := sameCRD(rendered, nil); err == nil {
		t.Error("CRD that is not generated: got no error")
	}
}
