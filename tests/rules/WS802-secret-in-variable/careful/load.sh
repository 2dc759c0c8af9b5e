export API_TOKEN="$(cat /run/token)"
DB_PASSWORD="${DB_PASSWORD:?set it}"
az login --password "$DB_PASSWORD"
