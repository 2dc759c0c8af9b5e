export API_TOKEN=abcdefghij0123456789xyz
export DB_PASSWORD="w1nter-is-here"
