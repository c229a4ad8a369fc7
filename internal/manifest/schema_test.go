package manifest

import (
	"runtime"
	"testing"
)

// TestRulesAreCachedWhileInUse checks that compiled rules are cached while they are in use.
// Afterwards the garbage collector must release them, and the next use compiles them again.
func TestRulesAreCachedWhileInUse(t *testing.T) {
	cache := cachedRules{file: "heartwood.dev_topics.yaml"}
	first, err := cache.load()
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	if second, err := cache.load(); err != nil || second != first {
		t.Errorf("rules in use were compiled again: %v", err)
	}
	runtime.KeepAlive(first)
	for range 10 { // a finalizer may retain the rules for one cycle
		runtime.GC()
		if cache.cached.Value() == nil {
			break
		}
	}
	if cache.cached.Value() != nil {
		t.Error("rules that are not in use were not released")
	}
	if again, err := cache.load(); err != nil || again == nil {
		t.Errorf("rules were not compiled again: %v", err)
	}
}

func TestRulesOfAnAbsentFile(t *testing.T) {
	if _, err := (&cachedRules{file: "none.yaml"}).load(); err == nil {
		t.Error("an absent file was accepted")
	}
}
