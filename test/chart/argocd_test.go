package chart

import (
	"os"
	"testing"

	lua "github.com/yuin/gopher-lua"
	"sigs.k8s.io/yaml"
)

// TestHealthOfArgoCD runs the health check in config/argocd with the Lua interpreter that Argo CD
// uses.
func TestHealthOfArgoCD(t *testing.T) {
	script := healthScript(t)
	for _, test := range []struct{ name, object, status, message string }{
		{"not seen", `{metadata: {generation: 1}, status: {observedGeneration: -1}}`,
			"Progressing", "The operator has not seen the last change yet."},
		{"changed", `{metadata: {generation: 3}, status: {observedGeneration: 2, conditions: [
			{type: Ready, status: "True", message: up}]}}`,
			"Progressing", "The operator has not seen the last change yet."},
		{"reconciling", `{metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [
			{type: Ready, status: "False", message: 0 of 3},
			{type: Reconciling, status: "True", message: 0 of 3}]}}`, "Progressing", "0 of 3"},
		{"stalled while Ready", `{metadata: {generation: 1}, status: {observedGeneration: 1,
			conditions: [{type: Ready, status: "True", message: up},
			{type: Stalled, status: "True", message: refused}]}}`, "Degraded", "refused"},
		{"ready", `{metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [
			{type: Compacting, status: "True", message: a pass},
			{type: Ready, status: "True", message: up}]}}`, "Healthy", "up"},
		{"PartitionSet", `{metadata: {generation: 9}, status: {partitions: {}}}`, "Healthy", ""},
		{"without a status", `{metadata: {generation: 9}}`, "Healthy", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var object any
			if err := yaml.Unmarshal([]byte(test.object), &object); err != nil {
				t.Fatal(err)
			}
			state := lua.NewState()
			defer state.Close()
			state.SetGlobal("obj", luaValue(state, object))
			if err := state.DoString(script); err != nil {
				t.Fatal(err)
			}
			health, ok := state.Get(-1).(*lua.LTable)
			if !ok {
				t.Fatalf("the script returned %s", state.Get(-1))
			}
			status, message := lua.LVAsString(health.RawGetString("status")),
				lua.LVAsString(health.RawGetString("message"))
			if status != test.status || message != test.message {
				t.Errorf("got %s, %q; want %s, %q", status, message, test.status, test.message)
			}
		})
	}
}

// healthScript returns the Lua script of config/argocd.
func healthScript(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(root + "config/argocd/argocd-cm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var patch struct{ Data map[string]string }
	if err := yaml.UnmarshalStrict(content, &patch); err != nil {
		t.Fatal(err)
	}
	var customizations map[string]map[string]string
	if err := yaml.Unmarshal([]byte(patch.Data["resource.customizations"]),
		&customizations); err != nil {
		t.Fatal(err)
	}
	return customizations["heartwood.dev/*"]["health.lua"]
}

// luaValue converts a JSON value to Lua.
func luaValue(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, field := range value {
			table.RawSetString(key, luaValue(state, field))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, element := range value {
			table.Append(luaValue(state, element))
		}
		return table
	case string:
		return lua.LString(value)
	case float64:
		return lua.LNumber(value)
	case bool:
		return lua.LBool(value)
	}
	return lua.LNil
}
