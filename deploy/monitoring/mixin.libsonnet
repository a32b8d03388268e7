// The alerts and the dashboard as a monitoring mixin.
{
  prometheusAlerts+:: std.parseYaml(importstr 'alerts.yaml'),
  grafanaDashboards+:: { 'embedd.json': import 'dashboard.json' },
}
