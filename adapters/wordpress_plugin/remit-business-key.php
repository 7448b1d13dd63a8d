<?php
/**
 * Plugin Name: Remit business key
 * Description: Lets Remit create a post once per business key, write only over the state it expects, and keep a meta description.
 * Version: 1
 * Requires at least: 5.7
 * Requires PHP: 7.4
 * License: Apache-2.0
 *
 * Install: copy this file into wp-content/mu-plugins/ (make the folder if there is none) and set key_strategy = "plugin"
 * for the site in remit.toml. There is nothing to configure. `remit doctor` says whether it is seen.
 *
 * What it adds to the REST interface of posts:
 *   meta _remit_key           the business key of a post; private, shown to who may edit. A second create with the same key is
 *                             refused with 409 remit_key_exists, whatever the status of the first, trash included
 *   ?remit_key=KEY            lists the posts with that key
 *   If-Match: "VERSION"       an update is refused with 412 remit_stale when the post is not as expected: its status, the time
 *                             of its last change and the hash of title, content and excerpt
 *   meta _remit_description   printed as <meta name="description"> on the post's page; a site whose SEO plugin prints one turns
 *                             it off with add_filter('remit_print_description', '__return_false')
 *   GET /remit/v1/plugin      {"version": 1}, to who may edit posts
 *
 * Creates with one key, and updates of one post, wait for each other in a lock of the database server (GET_LOCK), which ends with
 * the request. A database that is spread over several writing servers does not share such locks: there use key_strategy = "slug".
 */

defined('ABSPATH') || exit;

const REMIT_LOCK_S = 4; // a request that waits longer is told to come back: 503 remit_busy, nothing written

add_action('init', function () {
    foreach (['_remit_key', '_remit_description'] as $name) {
        register_post_meta('post', $name, [
            'type' => 'string',
            'single' => true,
            'show_in_rest' => ['schema' => ['type' => 'string', 'context' => ['edit']]],
            'auth_callback' => function ($allowed, $meta_key, $post_id) {
                return current_user_can('edit_post', $post_id);
            },
        ]);
    }
});

add_action('rest_api_init', function () {
    register_rest_route('remit/v1', '/plugin', [
        'methods' => 'GET',
        'callback' => function () { return ['version' => 1]; },
        'permission_callback' => function () { return current_user_can('edit_posts'); },
    ]);
});

add_filter('rest_post_collection_params', function ($params) {
    $params['remit_key'] = ['type' => 'string'];
    return $params;
});

add_filter('rest_post_query', function ($args, $request) {
    if ($request->get_param('remit_key') !== null) {
        $args['meta_key'] = '_remit_key';
        $args['meta_value'] = (string) $request->get_param('remit_key');
    }
    return $args;
}, 10, 2);

add_filter('rest_pre_insert_post', function ($post, $request) {
    if (is_wp_error($post)) {
        return $post;
    }
    return empty($post->ID) ? remit_before_create($post, $request) : remit_before_update($post, $request);
}, 10, 2);

add_action('wp_head', function () {
    $description = is_singular('post') ? get_post_meta(get_queried_object_id(), '_remit_description', true) : '';
    if (is_string($description) && $description !== '' && apply_filters('remit_print_description', true)) {
        echo '<meta name="description" content="' . esc_attr($description) . '">' . "\n";
    }
}, 1);

function remit_before_create($post, $request) {
    global $wpdb;
    $meta = $request->get_param('meta');
    $key = is_array($meta) ? ($meta['_remit_key'] ?? '') : '';
    if (!is_string($key) || $key === '') {
        return $post;
    }
    if (!remit_lock("key:$key")) {
        return remit_busy();
    }
    $find = "SELECT post_id FROM $wpdb->postmeta WHERE meta_key = '_remit_key' AND meta_value = %s ORDER BY post_id LIMIT 1";
    $known = $wpdb->get_var($wpdb->prepare($find, $key));
    if ($known) {
        return new WP_Error('remit_key_exists', 'A post with this key exists.', ['status' => 409, 'id' => (int) $known]);
    }
    $post->meta_input = ['_remit_key' => $key]; // written by wp_insert_post itself, together with the row
    return $post;
}

function remit_before_update($post, $request) {
    if (!remit_lock("post:$post->ID")) {
        return remit_busy();
    }
    $expected = $request->get_header('if_match');
    if ($expected === null) {
        return $post;
    }
    clean_post_cache($post->ID); // what this request has read before it had the lock may be old
    $found = get_post($post->ID);
    if (!$found || trim($expected, '"') !== remit_version($found)) {
        return new WP_Error('remit_stale', 'The post is not as expected.', ['status' => 412]);
    }
    return $post;
}

/** Status, time of the last change (UTC, as the REST interface tells it) and hash of what a reader sees. */
function remit_version($post) {
    $modified = $post->post_modified_gmt;
    if ($modified === '0000-00-00 00:00:00') { // a draft that was saved once
        $modified = gmdate('Y-m-d H:i:s', strtotime($post->post_modified) - (int) (get_option('gmt_offset') * HOUR_IN_SECONDS));
    }
    $texts = '';
    foreach ([$post->post_title, $post->post_content, $post->post_excerpt] as $text) {
        $texts .= strlen($text) . ':' . $text;
    }
    return $post->post_status . '/' . mysql_to_rfc3339($modified) . '/' . hash('sha256', $texts);
}

/** Held until the request ends. Names are per site: several sites may share a database server. */
function remit_lock($what) {
    global $wpdb;
    $name = 'remit:' . md5(DB_NAME . ':' . $wpdb->prefix . ':' . $what);
    $taken = (string) $wpdb->get_var($wpdb->prepare('SELECT GET_LOCK(%s, %d)', $name, REMIT_LOCK_S)) === '1';
    if ($taken) {
        add_action('shutdown', function () use ($wpdb, $name) {
            $wpdb->get_var($wpdb->prepare('SELECT RELEASE_LOCK(%s)', $name));
        }, PHP_INT_MAX);
    }
    return $taken;
}

function remit_busy() {
    return new WP_Error('remit_busy', 'Another request is writing this post.', ['status' => 503]);
}
