package httpport

import (
	"net/http"
	"net/http/pprof"
)

// PprofPath is the path below which NewPprof serves profiles.
const PprofPath = "/debug/pprof/"

// NewPprof returns the handler of the profiles below PprofPath, in the format of go tool pprof. A
// CPU profile or an execution trace costs CPU time while it is recorded, and a heap or goroutine
// profile reveals how the process works. Therefore the handler is served only behind a flag.
//
// The import of net/http/pprof also registers the profiles with http.DefaultServeMux, which no
// server of this module uses.
func NewPprof() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PprofPath, pprof.Index)
	mux.HandleFunc("GET "+PprofPath+"cmdline", pprof.Cmdline)
	mux.HandleFunc("GET "+PprofPath+"profile", pprof.Profile)
	mux.HandleFunc("GET "+PprofPath+"trace", pprof.Trace)
	// go tool pprof sends addresses with POST to resolve them.
	mux.HandleFunc("POST "+PprofPath+"symbol", pprof.Symbol)
	mux.HandleFunc("GET "+PprofPath+"symbol", pprof.Symbol)
	return mux
}
