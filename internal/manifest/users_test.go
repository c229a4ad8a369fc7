package manifest

import (
	"slices"
	"strings"
	"testing"
)

const usersCluster = `apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: main}
---
`

func userManifest(name, spec string) string {
	return "apiVersion: heartwood.dev/v1alpha1\nkind: LogUser\nmetadata: {name: " + name +
		"}\nspec: {" + spec + "}\n---\n"
}

func TestUsersAreSortedAndHaveDefaults(t *testing.T) {
	set, err := Load([]string{write(t, "a.yaml", usersCluster+userManifest("b", "cluster: main")+
		userManifest("a", "cluster: main, authentication: {type: Scram}"))})
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Users) != 2 || set.Users[0].Name != "a" ||
		set.Users[1].Spec.Authentication.Type != "External" {
		t.Errorf("got %+v", set.Users)
	}
}

func TestFaultsBetweenUsers(t *testing.T) {
	for text, want := range map[string]string{
		usersCluster + userManifest("a", "cluster: other"): `spec.cluster: Invalid value: ` +
			`"other": the LogCluster of these manifests is main: use its name`,
		usersCluster + userManifest("a", "cluster: main") + userManifest("a",
			"cluster: main"): `metadata.name: Duplicate value: "a"`,
		usersCluster + userManifest("a", "cluster: main") + userManifest("b",
			"cluster: main, userName: a"): `spec.userName: Duplicate value: "a"`,
		userManifest("a", "cluster: main") + "apiVersion: heartwood.dev/v1alpha1\nkind: Topic\n" +
			"metadata: {name: t}\nspec: {cluster: main}\n": "the manifests contain no LogCluster",
	} {
		_, err := Load([]string{write(t, "a.yaml", text)})
		if !slices.ContainsFunc(faults(err), func(fault string) bool {
			return strings.HasPrefix(fault, want) || strings.Contains(fault, want)
		}) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
