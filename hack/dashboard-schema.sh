#!/usr/bin/env bash
# dashboard-schema.sh checks the chart's dashboards against the types of Grafana's own npm package
# with npm's tsc. Without npm it says so and succeeds.
#
# Two kinds of findings are allowed, because they are limits of the types and not faults:
#   definition   a field of variables that Prometheus' data source defines, and not the dashboard
#   "absolute"   a string in JSON, which the types write as a value of an enum
set -euo pipefail
cd "$(dirname "$0")/.."
schema=13.2.3
allowed=(
  "'\"definition\"' does not exist in type 'VariableModel'"
  "Type '\"absolute\"' is not assignable to type 'ThresholdsMode'"
)
if ! command -v npm > /dev/null; then
  echo "dashboard-schema: npm is not installed; the dashboards were not checked"
  exit 0
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
echo '{"private": true}' > "$dir/package.json"
npm install --silent --no-audit --no-fund --prefix "$dir" "@grafana/schema@$schema" \
  typescript@7.0.2 > /dev/null
# Panels are checked one by one: within a Dashboard they belong to a union of types, in which tsc
# does not find unknown fields.
for file in charts/heartwood/dashboards/*.json; do
  node --eval '
    const fs = require("fs")
    const board = JSON.parse(fs.readFileSync(process.argv[1]))
    const text = (value) => JSON.stringify(value, null, 2)
    const lines = ["import type { Dashboard, Panel, RowPanel } from \"@grafana/schema\";"]
    for (const panel of board.panels) {
      const type = panel.type === "row" ? "RowPanel" : "Panel"
      lines.push(`export const panel${panel.id}: ${type} = ${text(panel)};`)
    }
    lines.push(`export const dashboard: Dashboard = ${text({...board, panels: []})};`)
    fs.writeFileSync(process.argv[2], lines.join("\n"))
  ' "$file" "$dir/$(basename "$file" .json).ts"
done
cat > "$dir/tsconfig.json" << 'JSON'
{"compilerOptions": {"strict": true, "noEmit": true, "module": "esnext", "types": [],
  "moduleResolution": "bundler", "target": "esnext", "skipLibCheck": true}, "include": ["*.ts"]}
JSON
(cd "$dir" && node_modules/.bin/tsc --project tsconfig.json --pretty false) > "$dir/found" || true
for one in "${allowed[@]}"; do
  grep -qF "$one" "$dir/found" ||
    { echo "dashboard-schema: nothing is found that is allowed: $one: allow it no more"; exit 1; }
  grep -vF "$one" "$dir/found" > "$dir/rest" || true
  mv "$dir/rest" "$dir/found"
done
if [ -s "$dir/found" ]; then
  echo "dashboard-schema: differences from @grafana/schema $schema:"
  cat "$dir/found"
  exit 1
fi
echo "dashboard-schema: $(ls "$dir"/*.ts | wc -l) dashboards agree with @grafana/schema $schema"
