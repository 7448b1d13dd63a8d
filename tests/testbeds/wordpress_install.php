<?php // php wordpress_install.php SITE_DIR URL: installs the site, one user of each role; prints ROLE=LOGIN:APPLICATION_PASSWORD
$_SERVER += ['HTTP_HOST' => parse_url($argv[2], PHP_URL_HOST) . ':' . parse_url($argv[2], PHP_URL_PORT), 'SERVER_NAME' => '127.0.0.1',
  'REQUEST_URI' => '/', 'REQUEST_METHOD' => 'GET', 'SERVER_PROTOCOL' => 'HTTP/1.1'];
define('WP_INSTALLING', true);
require $argv[1] . '/wp-load.php';
require_once ABSPATH . 'wp-admin/includes/upgrade.php';
add_filter('pre_wp_mail', '__return_true');
wp_install('Test bed', 'admin', 'admin@example.test', true, '', 'admin-pw');
update_option('siteurl', $argv[2]);
update_option('home', $argv[2]);
update_option('permalink_structure', '/%postname%/');
update_option('timezone_string', 'UTC');
$roles = ['administrator' => 'admin', 'editor' => 'editor1', 'author' => 'author1', 'contributor' => 'contributor1', 'subscriber' => 'subscriber1'];
foreach ($roles as $role => $login) {
  if (!username_exists($login))
    wp_insert_user(['user_login' => $login, 'user_pass' => "$login-pw", 'user_email' => "$login@example.test", 'role' => $role]);
  [$password] = WP_Application_Passwords::create_new_application_password(get_user_by('login', $login)->ID, ['name' => 'testbed']);
  echo "$role=$login:$password\n";
}
flush_rewrite_rules(false);
