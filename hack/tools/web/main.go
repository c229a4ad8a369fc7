// Command web bundles the console's TypeScript and CSS (internal/console/web) into the files that
// the binary embeds (internal/console/assets). It does not need Node.js, because esbuild is a Go
// module. It removes types without checking them; hack/web-types.sh checks them with npm's tsc.
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: web ROOT, the root of the repository")
	}
	if err := bundle(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// bundle writes the assets of the repository at root.
func bundle(root string) error {
	from := filepath.Join(root, "internal", "console", "web")
	to := filepath.Join(root, "internal", "console", "assets")
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	result := api.Build(api.BuildOptions{
		EntryPoints: []string{filepath.Join(from, "console.ts"), filepath.Join(from, "console.css")},
		Outdir:      to, Bundle: true, Write: true, LogLevel: api.LogLevelWarning,
		Format: api.FormatESModule, Target: api.ES2022, Charset: api.CharsetUTF8,
		MinifyWhitespace: true, MinifySyntax: true, MinifyIdentifiers: true,
		LegalComments: api.LegalCommentsNone,
	})
	if len(result.Errors) > 0 {
		return fmt.Errorf("bundle: %s", result.Errors[0].Text)
	}
	icon, err := os.ReadFile(filepath.Join(from, "icon.svg"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, "icon.svg"), icon, 0o644)
}
