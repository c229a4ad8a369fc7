#!/usr/bin/env bash
# kstatus tells Helm, Flux and others from the conditions Reconciling and Stalled whether a resource
# is ready. One would guess that Stalled takes precedence, as it reports a failure. The first of the
# two in the list decides: the same conditions in another order are InProgress instead of Failed, so
# a tool waits until its timeout. A list that is sorted by type has Reconciling first.
#
# Versions: sigs.k8s.io/cli-utils v0.37.2
# Source: documentation of pkg/kstatus, which defines both conditions and names no precedence
# Product: at most one of the two conditions exists (controllers/conditions).
. "$(dirname "$0")/lib.bash"

cat > "$work/main.go" <<'GO'
package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

func main() {
	for _, kinds := range [][]any{{"Stalled", "Reconciling"}, {"Reconciling", "Stalled"}} {
		var conditions []any
		for _, kind := range kinds {
			conditions = append(conditions, map[string]any{"type": kind, "status": "True",
				"reason": "Reason", "message": "Message"})
		}
		result, err := status.Compute(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Example",
			"metadata": map[string]any{"name": "example", "generation": int64(1)},
			"status":   map[string]any{"observedGeneration": int64(1), "conditions": conditions},
		}})
		if err != nil {
			panic(err)
		}
		fmt.Println(kinds, result.Status)
	}
}
GO
cd "$work"
go mod init finding 2> go.log
go get sigs.k8s.io/cli-utils@v0.37.2 2>> go.log
go mod tidy 2>> go.log
output=$(go run .)
same "Stalled is first" "$(sed -n 1p <<<"$output")" "[Stalled Reconciling] Failed"
same "Reconciling is first" "$(sed -n 2p <<<"$output")" "[Reconciling Stalled] InProgress"
