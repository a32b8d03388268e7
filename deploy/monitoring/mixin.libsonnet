// The alerts and the dashboard for those who deploy monitoring mixins.
{
  prometheusAlerts+:: std.parseYaml(importstr 'alerts.yaml'),
  grafanaDashboards+:: { 'embedd.json': import 'dashboard.json' },
}
